/* The engine as a program, for processors that are emulated (see emulated.py): emulated MODEL JOB ANSWERS, or without
words for its own test and the name of the kernel that multiplies eight bits. */
#include "translate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/int8_kernels.h"

static void *read_some(FILE *f, size_t bytes) {
    void *p = malloc(bytes + 1);
    if (!p || fread(p, 1, bytes, f) != bytes) exit(100);
    return p;
}

static int32_t read_number(FILE *f) { return *(int32_t *)read_some(f, 4); }

static Model *read_model(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) exit(101);
    const ModelConfig *config = read_some(f, sizeof(ModelConfig));
    int count = read_number(f);
    const void **tensors = calloc((size_t)count + 1, sizeof *tensors);
    const float **scales = calloc((size_t)count + 1, sizeof *scales);
    for (int i = 0; i < count; i++) {
        int floats = read_number(f);
        if (floats) tensors[i] = read_some(f, sizeof(float) * (size_t)floats);
    }
    return model_new(config, tensors, scales);
}

static size_t total(const int32_t *of, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += (size_t)of[i];
    return sum;
}

int main(int count, char **words) {
    if (count == 1) {
        puts(instructions());
        return self_test();
    }
    if (count != 4) return 99;
    Model *model = read_model(words[1]);
    Worker *worker = model ? worker_new(model) : NULL;
    FILE *f = fopen(words[2], "rb");
    if (!worker || !f) return 102;
    TranslationJob job = {.models = 1};
    memcpy(&job, read_some(f, 28), 28);
    size_t n = (size_t)job.sentences, answers = n * (size_t)job.n_best;
    job.source_lengths = read_some(f, 4 * n);
    job.source = read_some(f, 4 * total(job.source_lengths, job.sentences));
    job.limits = read_some(f, 4 * n);
    job.normalizers = read_some(f, 4 * ((size_t)job.max_length + 2));
    if (read_number(f)) {
        job.prefix_lengths = read_some(f, 4 * n);
        job.prefix = read_some(f, 4 * total(job.prefix_lengths, job.sentences));
    }
    fclose(f);
    job.tokens = calloc(answers * (size_t)job.max_length, 4);
    job.lengths = calloc(answers, 4);
    job.scores = calloc(answers, 4);
    job.log_probabilities = calloc(answers, 4);
    int failed = translate(worker, &job);
    if (failed) return 103;
    f = fopen(words[3], "wb");
    if (!f) return 104;
    fwrite(job.tokens, 4, answers * (size_t)job.max_length, f);
    fwrite(job.lengths, 4, answers, f);
    fwrite(job.scores, 4, answers, f);
    fwrite(job.log_probabilities, 4, answers, f);
    worker_free(worker);
    model_free(model);
    return fclose(f) ? 105 : 0;
}
