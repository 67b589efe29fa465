/* A folder made a model: its plan read, its code loaded, its weights mapped.

   plan.bin is words of 64 bits: a magic word, the format, the digest of the rest (4 words), then what `read_plan` reads. A text is
   its length in bytes and these, filled with zeros to whole words, at least one. Nothing of it is looked at before its digest fits. */

enum { MAGIC_WORDS = 6 };

static const char magic[] = "planish\n";

/* A place in the words of a plan. */
struct cursor { word *at, *end; };

static word next(struct cursor *c) { return c->at < c->end ? *c->at++ : 0; }

COLD static word *many(struct cursor *c, word count) {
    word *found = c->at;
    if (count < 0 || count > c->end - c->at) {
        c->at = c->end;
        return 0;
    }
    c->at += count;
    return found;
}

COLD static const char *text(struct cursor *c) {
    word bytes = next(c);
    return (const char *)many(c, (bytes + 8) / 8);
}

COLD static int refuse(planish_error *error, int code, const char *format, const char *first, const char *second) {
    if (error) {
        error->code = code;
        snprintf(error->text, sizeof error->text, format, first, second);
    }
    return code;
}

/* A file, mapped; whether it could be. */
COLD static int map_file(struct file *file, const char *folder, const char *name, planish_error *error) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return refuse(error, PLANISH_NO_MODEL, "the name of the folder is too long%s%s", "", "");
    int handle = open(path, 0x80000 /* O_RDONLY | O_CLOEXEC */);
    word bytes = handle < 0 ? -1 : lseek(handle, 0, 2 /* SEEK_END */);
    if (bytes > 0) {
        file->data = mmap(0, (size)bytes, 1 /* PROT_READ */, 2 /* MAP_PRIVATE */, handle, 0);
        if (file->data == (void *)-1) file->data = 0;
    }
    if (handle >= 0) close(handle);
    if (bytes < 0 || (bytes && !file->data)) return refuse(error, PLANISH_NO_MODEL, "%s cannot be read%s", path, "");
    file->bytes = (size)bytes;
    return 0;
}

/* Whether this processor, and the system on it, has a feature: a bit of a register that CPUID fills, or of XCR0. */
COLD static int processor_has(word leaf, word subleaf, word which, word bit) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (leaf < 0) {
        __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(a), "=d"(d) : "c"(0));
        return a >> bit & 1;
    }
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"((unsigned)leaf & 0x80000000), "c"(0));
    if (a < (unsigned)leaf) return 0;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"((unsigned)leaf), "c"((unsigned)subleaf));
    unsigned found = which == 0 ? a : which == 1 ? b : which == 2 ? c : d;
    return found >> bit & 1;
}

COLD static int check_processor(struct planish_model *m, struct cursor *c, planish_error *error) {
    for (word count = next(c); count > 0; count--) {
        const char *name = text(c);
        word *row = many(c, 4);
        if (!row) break;
        if (!processor_has(row[0], row[1], row[2], row[3]))
            return refuse(error, PLANISH_PROCESSOR, "the model was compiled for %s, and this processor lacks %s", m->target, name);
    }
    if (next(c) && syscall(158 /* arch_prctl */, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tiles */))
        return refuse(error, PLANISH_PROCESSOR, "the model was compiled for %s, and this system does not allow %s", m->target, "AMX");
    return 0;
}

/* The ports that a program sees, and what the run needs of them besides. */
COLD static struct port *read_ports(struct cursor *c, word *count, planish_port **told) {
    *count = next(c);
    struct port *ports = calloc((size)*count + 1, sizeof *ports);
    *told = calloc((size)*count + 1, sizeof **told);
    if (!ports || !*told) return ports;
    for (word n = 0; n < *count; n++) {
        struct port *p = &ports[n];
        planish_port *t = &(*told)[n];
        t->name = text(c);
        t->dtype = (int)next(c);
        p->itemsize = next(c);
        p->place = next(c);
        p->copied = next(c);
        t->rank = (int)next(c);
        p->dims = many(c, t->rank);
        planish_axis *axes = calloc((size)t->rank + 1, sizeof *axes);
        t->axes = axes;
        for (int k = 0; axes && k < t->rank; k++) {
            const char *name = text(c);
            axes[k] = (planish_axis){name && *name ? name : 0, next(c), next(c)};
        }
    }
    return ports;
}

COLD static int read_plan(struct planish_model *m, const char *folder, planish_error *error) {
    struct cursor c = {m->plan.data, m->plan.data + m->plan.bytes / sizeof(word)}, *at = &c;
    if (m->plan.bytes < MAGIC_WORDS * sizeof(word) || next(at) != *(const word *)magic)
        return refuse(error, PLANISH_NO_MODEL, "%s is no compiled model%s", folder, "");
    word format = next(at);
    if (format != PLANISH_FORMAT)
        return refuse(error, PLANISH_VERSION, "%s was compiled by another version of planish%s", folder, ", whose folders this library does not read: compile the model again");
    const unsigned char *digest = (const unsigned char *)many(at, 4);
    if (!has_digest((const unsigned char *)c.at, (size)((char *)m->plan.data + m->plan.bytes - (char *)c.at), digest))
        return refuse(error, PLANISH_DAMAGED, "%s/plan.bin is damaged, its digest does not fit%s", folder, "");
    m->version = text(at);
    m->target = text(at);
    int status = check_processor(m, at, error);
    if (status) return status;
    word bytes = next(at);
    digest = (const unsigned char *)many(at, 4);
    struct file code = {0};
    if ((status = map_file(&code, folder, "model.so", error))) return status;
    int whole = (word)code.bytes == bytes && has_digest((const unsigned char *)code.data, code.bytes, digest);
    if (code.data) munmap(code.data, code.bytes);
    if (!whole) return refuse(error, PLANISH_DAMAGED, "%s/model.so is damaged, its digest does not fit%s", folder, "");
    if ((status = map_file(&m->weights, folder, "weights.bin", error))) return status;
    bytes = next(at);
    m->digest = (const unsigned char *)many(at, 4);
    if ((word)m->weights.bytes != bytes)
        return refuse(error, PLANISH_DAMAGED, "%s/weights.bin is damaged, it has another length%s", folder, "");
    m->words = next(at);
    word *words = many(at, m->words);
    m->template = words ? calloc((size)m->words, sizeof(word)) : 0;
    if (m->template) __builtin_memcpy(m->template, words, (size)m->words * sizeof(word));
    m->arena = next(at);
    m->inside_count = next(at);
    m->inside = many(at, m->inside_count);
    for (word left = next(at); left > 0; left--) {
        word place = next(at), offset = next(at);
        if (m->template) m->template[place] = (word)m->weights.data + offset;
    }
    m->size_count = next(at);
    m->sizes = calloc((size)m->size_count + 1, sizeof *m->sizes);
    for (word n = 0; m->sizes && n < m->size_count; n++) {
        const char *name = text(at);
        m->sizes[n] = (struct named_size){name, next(at), next(at), next(at)};
    }
    m->input = read_ports(at, &m->input_count, &m->inputs);
    m->output = read_ports(at, &m->output_count, &m->outputs);
    if (!m->template || !m->sizes || !m->input || !m->output || !m->inputs || !m->outputs)
        return refuse(error, PLANISH_MEMORY, "no memory for %s%s", folder, "");
    return 0;
}

COLD static int load_code(struct planish_model *m, const char *folder, planish_error *error) {
    char path[4200];
    /* without a slash, the loader would look for it elsewhere; two models may have files of one name */
    snprintf(path, sizeof path, "%s/model.so", folder);
    m->code = dlopen(path, 2 /* RTLD_NOW */);
    if (!m->code) return refuse(error, PLANISH_NO_MODEL, "%s cannot be loaded: %s", path, dlerror());
    m->run = (plan_function)dlsym(m->code, "run");
    m->measure = (plan_function)dlsym(m->code, "sizes");
    if (!m->run || !m->measure) return refuse(error, PLANISH_NO_MODEL, "%s is no compiled model%s", path, "");
    return 0;
}

void planish_free(planish_model *m) {
    if (!m) return;
    for (struct arena *a = m->arenas; a;) {
        struct arena *after = a->next;
        munmap(a, a->bytes);
        a = after;
    }
    for (word n = 0; m->inputs && n < m->input_count; n++) free((void *)m->inputs[n].axes);
    for (word n = 0; m->outputs && n < m->output_count; n++) free((void *)m->outputs[n].axes);
    free(m->inputs);
    free(m->outputs);
    free(m->input);
    free(m->output);
    free(m->template);
    free(m->sizes);
    if (m->code) dlclose(m->code);
    if (m->weights.data) munmap(m->weights.data, m->weights.bytes);
    if (m->plan.data) munmap(m->plan.data, m->plan.bytes);
    free(m);
}

int planish_load(const char *folder, planish_model **model, planish_error *error) {
    if (error) *error = (planish_error){0};
    if (!model || !folder) return refuse(error, PLANISH_ARGUMENT, "planish_load takes a folder and a place for the model%s%s", "", "");
    *model = 0;
    struct planish_model *m = calloc(1, sizeof *m);
    if (!m) return refuse(error, PLANISH_MEMORY, "no memory for %s%s", folder, "");
    int status = map_file(&m->plan, folder, "plan.bin", error);
    if (!status) status = read_plan(m, folder, error);
    if (!status) status = load_code(m, folder, error);
    if (status) {
        planish_free(m);
        return status;
    }
    *model = m;
    return 0;
}

int planish_verify(const planish_model *m, planish_error *error) {
    if (has_digest((const unsigned char *)m->weights.data, m->weights.bytes, m->digest)) return 0;
    return refuse(error, PLANISH_DAMAGED, "weights.bin is damaged, its digest does not fit%s%s", "", "");
}
