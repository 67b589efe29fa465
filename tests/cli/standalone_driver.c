/* Runs a compiled model on files: driver FOLDER DIR THREADS CALLERS.

   DIR/in.NAME has words of 64 bits (dtype, rank, sizes), then elements; DIR/out.NUMBER is written alike. Several callers run the model at
   once, each a few times, and have to agree to the last bit. What goes wrong is one line. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "planish.h"

enum { MOST = 16, TURNS = 5 };

static planish_model *model;
static planish_tensor inputs[MOST];
static size_t input_count, output_count;

static void stop(const char *what) {
    printf("%s\n", what);
    exit(1);
}

static void read_input(const char *folder, const planish_port *port, planish_tensor *into) {
    char path[4096];
    int64_t head[2];
    snprintf(path, sizeof path, "%s/in.%s", folder, port->name);
    FILE *file = fopen(path, "rb");
    if (!file) return;
    if (fread(head, 8, 2, file) != 2) stop("no head");
    *into = (planish_tensor){port->name, (int32_t)head[0], (int32_t)head[1], {0}, NULL, 0};
    if (fread(into->shape, 8, (size_t)head[1], file) != (size_t)head[1]) stop("no shape");
    long start = ftell(file);
    fseek(file, 0, SEEK_END);
    into->bytes = (uint64_t)(ftell(file) - start);
    fseek(file, start, SEEK_SET);
    into->data = malloc(into->bytes + 1);
    if (fread(into->data, 1, into->bytes, file) != into->bytes) stop("no data");
    fclose(file);
    input_count++;
}

static void *call(void *result) {
    planish_tensor *outputs = result;
    planish_error error;
    for (int turn = 0; turn < TURNS; turn++) {
        planish_tensor now[MOST] = {0};
        if (planish_run(model, inputs, input_count, now, output_count, &error)) stop(error.text);
        for (size_t n = 0; n < output_count; n++) {
            if (turn && (now[n].bytes != outputs[n].bytes || memcmp(now[n].data, outputs[n].data, now[n].bytes))) stop("turns differ");
            if (turn) planish_release(&now[n]);
            else outputs[n] = now[n];
        }
    }
    return NULL;
}

int main(int count, char **arguments) {
    planish_error error;
    const planish_port *ports;
    if (count != 5) stop("driver FOLDER DIR THREADS CALLERS");
    if (planish_load(arguments[1], &model, &error)) stop(error.text);
    if (planish_verify(model, &error)) stop(error.text);
    planish_threads(model, (unsigned)atoi(arguments[3]));
    size_t wanted = planish_inputs(model, &ports);
    for (size_t n = 0; n < wanted; n++) read_input(arguments[2], &ports[n], &inputs[input_count]);
    output_count = planish_outputs(model, &ports);
    int callers = atoi(arguments[4]);
    static planish_tensor results[MOST][MOST];
    pthread_t threads[MOST];
    for (int n = 0; n < callers; n++) pthread_create(&threads[n], NULL, call, results[n]);
    for (int n = 0; n < callers; n++) pthread_join(threads[n], NULL);
    for (size_t n = 0; n < output_count; n++) {
        planish_tensor *first = &results[0][n];
        for (int k = 1; k < callers; k++)
            if (first->bytes != results[k][n].bytes || memcmp(first->data, results[k][n].data, first->bytes)) stop("callers differ");
        char path[4096];
        snprintf(path, sizeof path, "%s/out.%02zu", arguments[2], n);
        FILE *file = fopen(path, "wb");
        int64_t head[2] = {first->dtype, first->rank};
        fwrite(head, 8, 2, file);
        fwrite(first->shape, 8, (size_t)first->rank, file);
        fwrite(first->data, 1, first->bytes, file);
        fclose(file);
    }
    for (int k = 0; k < callers; k++)
        for (size_t n = 0; n < output_count; n++) planish_release(&results[k][n]);
    planish_free(model);
    printf("ok\n");
    return 0;
}
