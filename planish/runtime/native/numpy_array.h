/* NumPy's array object, word by word, and its description of an allocator. Python compares what `array_words` reads here with
   what NumPy says of an array, once per process: where they differ, nothing of this is used. */
#pragma once
#include "system.h"

struct array {
    word references;
    object *type;
    void *data;
    int rank;
    word *shape, *strides;
    object *base, *dtype;
    int flags;
    object *weak_references;
    void *buffer_information;
    object *allocator;
};

enum { CONTIGUOUS = 1, OWNDATA = 4, ALIGNED = 0x100, WRITEABLE = 0x400 };
enum { READ = CONTIGUOUS | ALIGNED, WRITTEN = READ | WRITEABLE };

/* `PyDataMem_Handler` */
struct numpy_allocator {
    char name[127];
    unsigned char version;
    void *context;
    void *(*malloc)(void *context, size bytes);
    void *(*calloc)(void *context, size count, size each);
    void *(*realloc)(void *context, void *old, size bytes);
    void (*free)(void *context, void *data, size bytes);
};

/* `PyArray_NewFromDescr` */
typedef struct array *(*array_function)(
    object *type, object *dtype, int rank, word *shape, word *strides, void *data, int flags, object *base);

struct numpy_interface { object *type; array_function new_array; object *allocator, *bytes; };
