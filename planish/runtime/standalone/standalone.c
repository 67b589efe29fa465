/* libplanish.so, as one unit: compiled models without Python (planish.h). `make native` compiles it to standalone.ll. */
#include "../native/pool.c"
#include "../native/half.c"
#include "planish.h"

extern int open(const char *path, int flags, ...);
extern int close(int file);
extern word lseek(int file, word offset, int from);
extern void *calloc(size count, size bytes);
extern int snprintf(char *to, size bytes, const char *format, ...);
extern int strcmp(const char *a, const char *b);
extern void *dlopen(const char *path, int flags);
extern void *dlsym(void *library, const char *name);
extern int dlclose(void *library);
extern char *dlerror(void);
extern int pthread_create(size *thread, const void *attributes, void *(*start)(void *), void *argument);
extern int pthread_detach(size thread);
extern int pthread_sigmask(int how, const void *set, void *old);
extern int sched_getaffinity(int process, size bytes, void *mask);

/* The first words of a frame. */
struct frame { word resume, deadline, threads; };

typedef word (*plan_function)(word *frame);

struct file { word *data; size bytes; };

/* What a run has to know of an input or output: its dims are sizes, or ~word of the frame that has the size. */
struct port { word itemsize, place, copied, *dims; };

struct named_size { const char *name; word place, least, most; };

/* Memory that a run works in; kept for the next one. */
struct arena { struct arena *next; size bytes; };

struct planish_model {
    struct file plan, weights;
    const char *version, *target;
    const unsigned char *digest; /* of the weights */
    void *code;
    plan_function run, measure;
    word words, *template; /* of the frame */
    word arena, inside_count, *inside; /* the bytes that a run works in, and the words of the frame that are offsets into them */
    word size_count;
    struct named_size *sizes;
    word input_count, output_count;
    struct port *input, *output;
    planish_port *inputs, *outputs;
    unsigned threads;
    word lock;
    struct arena *arenas;
};

#include "sha256.c"
#include "load.c"
#include "run.c"
