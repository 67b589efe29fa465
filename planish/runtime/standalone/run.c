/* One run of a model: inputs checked, a frame filled, the plan called.

   A run has a frame and an arena of its own: several may be under way at once. The pool of threads is that of the process; who finds
   it busy works alone. */

static word workers, workers_lock, pool_is_ready;

COLD static void *work(void *nothing) {
    pool_worker();
    return nothing;
}

COLD static void enter_lock(word *lock) {
    for (word open = 0; !EXCHANGE(lock, open, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); open = 0) sched_yield();
}

static void leave_lock(word *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

COLD static unsigned cores(void) {
    size mask[16] = {0};
    unsigned count = 0;
    if (sched_getaffinity(0, sizeof mask, mask)) return 1;
    for (int k = 0; k < 16; k++) count += (unsigned)__builtin_popcountl(mask[k]);
    return count ? count : 1;
}

/* Workers for so many threads, as far as the system gives them. No signal of the program is theirs. */
COLD static void start_workers(word wanted) {
    size every[16], before[16], thread;
    enter_lock(&workers_lock);
    if (!pool_is_ready) pool_reset();
    pool_is_ready = 1;
    __builtin_memset(every, 0xFF, sizeof every);
    pthread_sigmask(2 /* SIG_SETMASK */, every, before);
    while (workers < wanted && !pthread_create(&thread, 0, work, 0)) {
        pthread_detach(thread);
        workers++;
    }
    pthread_sigmask(2, before, 0);
    leave_lock(&workers_lock);
}

/* Nothing stops a plan in the middle. */
int interrupted(struct frame *frame) { return 0; }

size_t planish_inputs(const planish_model *m, const planish_port **ports) {
    if (ports) *ports = m->inputs;
    return (size_t)m->input_count;
}

size_t planish_outputs(const planish_model *m, const planish_port **ports) {
    if (ports) *ports = m->outputs;
    return (size_t)m->output_count;
}

const char *planish_compiled_by(const planish_model *m) { return m->version; }

const char *planish_target(const planish_model *m) { return m->target; }

void planish_threads(planish_model *m, unsigned count) { POKE(&m->threads, count); }

void planish_release(planish_tensor *output) {
    free(output->data);
    output->data = 0;
    output->bytes = 0;
}

static const char *const dtype_names[] = {
    "nothing", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "text", "bool", "float16", "float64", "uint32",
    "uint64", "complex64", "complex128", "bfloat16",
};

static const char *dtype_name(int dtype) { return dtype > 0 && dtype <= 16 ? dtype_names[dtype] : "no dtype"; }

/* `float32[2, n in 1..64]`, as far as there is room. */
COLD static void describe(char *to, size room, int dtype, int rank, const planish_axis *axes, const int64_t *shape) {
    size used = (size)snprintf(to, room, "%s[", dtype_name(dtype));
    for (int k = 0; k < rank && used + 80 < room; k++) {
        const char *comma = k ? ", " : "";
        if (shape) used += (size)snprintf(to + used, room - used, "%s%ld", comma, shape[k]);
        else if (axes[k].name) used += (size)snprintf(to + used, room - used, "%s%.24s in %ld..%ld", comma, axes[k].name, axes[k].least, axes[k].most);
        else used += (size)snprintf(to + used, room - used, "%s%ld", comma, axes[k].most);
    }
    snprintf(to + used, room - used, "]");
}

COLD static int misfit(const planish_port *port, const planish_tensor *given, planish_error *error) {
    char is[160], wanted[160], text[400];
    int rank = given->rank < 0 ? 0 : given->rank > PLANISH_RANK ? PLANISH_RANK : given->rank;
    describe(is, sizeof is, given->dtype, rank, 0, given->shape);
    describe(wanted, sizeof wanted, port->dtype, port->rank, port->axes, 0);
    snprintf(text, sizeof text, "is %s, %s is expected", is, wanted);
    return refuse(error, PLANISH_ARGUMENT, "input %.80s %s", port->name, text);
}

/* The number of the port that a tensor names, or that is at its place; -1 if there is none. */
COLD static word port_of(const planish_port *ports, word count, const planish_tensor *tensor, size_t at) {
    if (!tensor->name) return at < (size_t)count ? (word)at : -1;
    for (word n = 0; n < count; n++)
        if (!strcmp(ports[n].name, tensor->name)) return n;
    return -1;
}

COLD static int unknown(const planish_tensor *tensor, const char *kind, const planish_port *ports, word count, planish_error *error) {
    char names[320] = "";
    size used = 0;
    for (word n = 0; n < count && used + 64 < sizeof names; n++)
        used += (size)snprintf(names + used, sizeof names - used, "%s%.48s", n ? ", " : "", ports[n].name);
    char text[480];
    snprintf(text, sizeof text, "the model has no %s %.64s; it has %s", kind, tensor->name ? tensor->name : "at that place", names);
    return refuse(error, PLANISH_ARGUMENT, "%s%s", text, "");
}

/* An input into the frame: its address, and the sizes that it brings. */
COLD static int take_input(const planish_model *m, word n, const planish_tensor *given, word *frame, planish_error *error) {
    const planish_port *port = &m->inputs[n];
    const struct port *own = &m->input[n];
    if (given->dtype != port->dtype || given->rank != port->rank) return misfit(port, given, error);
    size bytes = (size)own->itemsize;
    for (int k = 0; k < port->rank; k++) {
        word size_of = given->shape[k], dim = own->dims[k];
        if (size_of < 0) return misfit(port, given, error);
        if (dim < 0) {
            word *known = &frame[~dim];
            if (*known == -1) {
                if (size_of < port->axes[k].least || size_of > port->axes[k].most) return misfit(port, given, error);
                *known = size_of;
            } else if (*known != size_of) {
                char text[160];
                snprintf(text, sizeof text, "has %ld for the size %.48s, which is %ld in another axis", size_of, port->axes[k].name, *known);
                return refuse(error, PLANISH_ARGUMENT, "input %.80s %s", port->name, text);
            }
        } else if (dim != size_of) return misfit(port, given, error);
        if (__builtin_mul_overflow(bytes, (size)size_of, &bytes)) return misfit(port, given, error);
    }
    if (bytes && !given->data) return refuse(error, PLANISH_ARGUMENT, "input %s has no data%s", port->name, "");
    if (given->bytes && given->bytes < bytes) return refuse(error, PLANISH_ARGUMENT, "input %s has fewer bytes than its shape needs%s", port->name, "");
    if ((size)given->data % (size)(own->itemsize < 8 ? own->itemsize : 8))
        return refuse(error, PLANISH_ARGUMENT, "input %s does not start at a multiple of the size of its elements%s", port->name, "");
    frame[own->place] = (word)given->data;
    return 0;
}

COLD static int take_inputs(const planish_model *m, const planish_tensor *inputs, size_t count, word *frame, planish_error *error) {
    for (size_t n = 0; n < count; n++) {
        word number = port_of(m->inputs, m->input_count, &inputs[n], n);
        if (number < 0) return unknown(&inputs[n], "input", m->inputs, m->input_count, error);
        int status = take_input(m, number, &inputs[n], frame, error);
        if (status) return status;
    }
    for (word n = 0; n < m->input_count; n++) {
        int found = 0;
        for (size_t k = 0; k < count && !found; k++) found = port_of(m->inputs, m->input_count, &inputs[k], k) == n;
        if (!found) return refuse(error, PLANISH_ARGUMENT, "input %s is missing%s", m->inputs[n].name, "");
    }
    return 0;
}

/* The bytes of an output: of its shape, or of the largest where data decides. */
COLD static size bytes_of(const planish_model *m, word n, const word *frame, int after, int64_t *shape) {
    const planish_port *port = &m->outputs[n];
    const struct port *own = &m->output[n];
    size bytes = (size)own->itemsize;
    for (int k = 0; k < port->rank; k++) {
        word dim = own->dims[k], size_of = dim >= 0 ? dim : port->axes[k].name || after ? frame[~dim] : port->axes[k].most;
        if (shape) shape[k] = size_of;
        bytes *= (size)size_of;
    }
    return bytes;
}

/* Memory for the outputs: the caller's, or some of ours. */
COLD static int place_outputs(const planish_model *m, planish_tensor *outputs, size_t count, word *frame, planish_error *error) {
    for (size_t n = 0; n < count; n++) {
        word number = port_of(m->outputs, m->output_count, &outputs[n], n);
        if (number < 0) return unknown(&outputs[n], "output", m->outputs, m->output_count, error);
        size bytes = bytes_of(m, number, frame, 0, 0);
        if (outputs[n].data && outputs[n].bytes < bytes) {
            char text[120];
            snprintf(text, sizeof text, "needs %lu bytes, there are %lu", bytes, outputs[n].bytes);
            return refuse(error, PLANISH_ARGUMENT, "output %s %s", m->outputs[number].name, text);
        }
    }
    return 0;
}

COLD static struct arena *take_arena(planish_model *m) {
    enter_lock(&m->lock);
    struct arena *found = m->arenas;
    if (found) m->arenas = found->next;
    leave_lock(&m->lock);
    if (found) return found;
    size bytes = (size)m->arena + PAGE;
    found = mmap(0, bytes, 3 /* READ | WRITE */, 34 /* PRIVATE | ANONYMOUS */, -1, 0);
    if (found == (void *)-1) return 0;
    madvise(found, bytes, 14 /* HUGEPAGE */);
    found->bytes = bytes;
    return found;
}

COLD static void give_arena(planish_model *m, struct arena *arena) {
    enter_lock(&m->lock);
    arena->next = m->arenas;
    m->arenas = arena;
    leave_lock(&m->lock);
}

static void *room(size bytes) { return aligned_alloc(LINE, (bytes + LINE) / LINE * LINE); }

/* The plan on a frame, results in memory of the library (`own`, one for each output); the status. */
COLD static int compute(planish_model *m, word *frame, void **own, planish_tensor *outputs, size_t count, planish_error *error) {
    for (word n = 0; n < m->output_count; n++) {
        if (m->output[n].copied) continue;
        void *place = 0;
        for (size_t k = 0; k < count && !place; k++)
            if (port_of(m->outputs, m->output_count, &outputs[k], k) == n) place = outputs[k].data;
        if (!place) place = own[n] = room(bytes_of(m, n, frame, 0, 0));
        if (!place) return refuse(error, PLANISH_MEMORY, "no memory for output %s%s", m->outputs[n].name, "");
        frame[m->output[n].place] = (word)place;
    }
    word status = m->run(frame);
    if (status >> 32 == 2) return refuse(error, PLANISH_ARGUMENT, "the data of the inputs asks for a size that is out of its bounds%s%s", "", "");
    if (status) return refuse(error, PLANISH_NO_MODEL, "the plan stopped: the model needs Python%s%s", "", "");
    for (size_t k = 0; k < count; k++) {
        word n = port_of(m->outputs, m->output_count, &outputs[k], k);
        planish_tensor *out = &outputs[k];
        out->dtype = m->outputs[n].dtype;
        out->rank = m->outputs[n].rank;
        size bytes = bytes_of(m, n, frame, 1, out->shape);
        void *from = (void *)frame[m->output[n].place];
        if (!out->data) {
            out->data = own[n];
            own[n] = 0;
            if (!out->data) out->data = room(bytes);
            if (!out->data) return refuse(error, PLANISH_MEMORY, "no memory for output %s%s", m->outputs[n].name, "");
        }
        if (out->data != from && bytes) __builtin_memcpy(out->data, from, bytes);
        out->bytes = bytes;
    }
    return 0;
}

int planish_run(planish_model *m, const planish_tensor *inputs, size_t input_count, planish_tensor *outputs, size_t output_count,
                planish_error *error) {
    if (error) *error = (planish_error){0};
    if (!m || (input_count && !inputs) || (output_count && !outputs))
        return refuse(error, PLANISH_ARGUMENT, "planish_run takes a model, its inputs and its outputs%s%s", "", "");
    unsigned threads = PEEK(&m->threads);
    if (!threads) POKE(&m->threads, threads = cores());
    if (LOAD(&workers) < (word)threads - 1) start_workers((word)threads - 1);
    size whole = (size)m->words * sizeof(word);
    word *frame = calloc(1, whole + (size)(m->output_count + 1) * sizeof(void *));
    if (!frame) return refuse(error, PLANISH_MEMORY, "no memory for a run%s%s", "", "");
    void **own = (void **)((char *)frame + whole);
    __builtin_memcpy(frame, m->template, whole);
    ((struct frame *)frame)->threads = (word)threads;
    int status = take_inputs(m, inputs, input_count, frame, error);
    if (!status) {
        m->measure(frame);
        status = place_outputs(m, outputs, output_count, frame, error);
    }
    struct arena *arena = 0;
    if (!status) {
        arena = take_arena(m);
        if (!arena) status = refuse(error, PLANISH_MEMORY, "no memory for a run%s%s", "", "");
    }
    if (!status) {
        for (word n = 0; n < m->inside_count; n++) frame[m->inside[n]] += (word)arena + PAGE;
        status = compute(m, frame, own, outputs, output_count, error);
    }
    if (arena) give_arena(m, arena);
    for (word n = 0; n < m->output_count; n++) free(own[n]);
    free(frame);
    return status;
}
