/* Compiled models without Python: load a folder that `planish compile` wrote, run it, free it.

       planish_error error;
       planish_model *model;
       if (planish_load("out", &model, &error)) { fprintf(stderr, "%s\n", error.text); return 1; }
       float x[2][3] = { … }, y[2][4];
       planish_tensor in = {"x", PLANISH_FLOAT32, 2, {2, 3}, x, sizeof x}, out = {"y", 0, 0, {0}, y, sizeof y};
       if (planish_run(model, &in, 1, &out, 1, &error)) …
       planish_free(model);

   A program is linked with libplanish.so, which lies in the folder. Every function but planish_free may be called by several
   threads at once, planish_run on one model too. Nothing is written to the folder. Whoever loads one runs the machine code in it. */
#ifndef PLANISH_H
#define PLANISH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PLANISH_FORMAT = 3, PLANISH_RANK = 64 };

/* What a function returns; the text of the error says more. */
typedef enum planish_status {
    PLANISH_OK = 0,
    PLANISH_NO_MODEL = 1,  /* the folder cannot be read, or holds something else */
    PLANISH_DAMAGED = 2,   /* a file is not what was written */
    PLANISH_VERSION = 3,   /* written for another version of this library */
    PLANISH_PROCESSOR = 4, /* compiled for a processor that has what this one lacks */
    PLANISH_ARGUMENT = 5,  /* an input or output that the model does not take */
    PLANISH_MEMORY = 6     /* no memory */
} planish_status;

/* Element types; the numbers are ONNX's. */
typedef enum planish_dtype {
    PLANISH_FLOAT32 = 1, PLANISH_UINT8 = 2, PLANISH_INT8 = 3, PLANISH_UINT16 = 4, PLANISH_INT16 = 5, PLANISH_INT32 = 6,
    PLANISH_INT64 = 7, PLANISH_BOOL = 9, PLANISH_FLOAT16 = 10, PLANISH_FLOAT64 = 11, PLANISH_UINT32 = 12, PLANISH_UINT64 = 13,
    PLANISH_COMPLEX64 = 14, PLANISH_COMPLEX128 = 15, PLANISH_BFLOAT16 = 16
} planish_dtype;

typedef struct planish_error {
    int32_t code; /* a planish_status */
    char text[508];
} planish_error;

/* An axis of an input or output. A size that a caller chooses has a name; of one that follows from others, the name says how. */
typedef struct planish_axis {
    const char *name;     /* NULL if the size is fixed, or if data decides it */
    int64_t least, most;  /* equal if it is fixed */
} planish_axis;

typedef struct planish_port {
    const char *name;
    int32_t dtype; /* a planish_dtype */
    int32_t rank;
    const planish_axis *axes;
} planish_port;

/* An array, its elements one after another, the last axis fastest.

   Of an input everything but `bytes` is read; `bytes` is too, unless it is 0. Of an output the name is read, and data and bytes
   if there are some: the result is written there. If data is NULL, memory is taken for it, which planish_release gives back.
   Dtype, rank, shape and bytes of an output are set. Inputs and outputs whose name is NULL are those at their places. */
typedef struct planish_tensor {
    const char *name;
    int32_t dtype, rank;
    int64_t shape[PLANISH_RANK];
    void *data;
    uint64_t bytes;
} planish_tensor;

typedef struct planish_model planish_model;

/* Loads a folder. Code and plan are compared with their digests, weights are mapped (planish_verify compares them too). */
int planish_load(const char *folder, planish_model **model, planish_error *error);

/* Compares every byte of the weights with what was written. */
int planish_verify(const planish_model *model, planish_error *error);

/* How many inputs and outputs there are, and what they are; the ports live as long as the model. */
size_t planish_inputs(const planish_model *model, const planish_port **ports);
size_t planish_outputs(const planish_model *model, const planish_port **ports);

/* The version of planish that compiled it, and the processor that it was compiled for. */
const char *planish_compiled_by(const planish_model *model);
const char *planish_target(const planish_model *model);

/* How many threads a run may use, 0: one for each core that the process may use (as it is before this is called). */
void planish_threads(planish_model *model, unsigned count);

/* Runs the model: all of its inputs, those of its outputs that are wanted. */
int planish_run(planish_model *model, const planish_tensor *inputs, size_t input_count, planish_tensor *outputs,
                size_t output_count, planish_error *error);

/* Gives back the memory of an output that planish_run took. */
void planish_release(planish_tensor *output);

/* Frees a model that nobody runs; NULL is none. */
void planish_free(planish_model *model);

#ifdef __cplusplus
}
#endif

#endif
