/* What C reaches with the same driver, for the tests to compare with: peer PTX_FILE. Prints a figure per line.
 *
 * It needs no CUDA headers: the few types are declared here, the library is opened at run time, as we do. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long CUdeviceptr;
typedef void *Handle;

#define BATCH 100
#define BATCHES 100
#define COPY_NBYTES (256u << 20)
#define COPIES 12

static void *library;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void *find(const char *name)
{
    void *function = dlsym(library, name);
    if (function == NULL) {
        fprintf(stderr, "%s is missing\n", name);
        exit(1);
    }
    return function;
}

static void check(int result, const char *call)
{
    if (result != 0) {
        fprintf(stderr, "%s gave %d\n", call, result);
        exit(1);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size;
    char *text;
    if (file == NULL)
        exit(1);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    text = calloc(size + 1, 1);
    if (fread(text, 1, size, file) != (size_t)size)
        exit(1);
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    double start, seconds[BATCHES];
    int device, i, j;
    unsigned amount = 1;
    Handle context, module, function, host;
    CUdeviceptr memory;

    if (argc != 2)
        return 2;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL)
        return 1;
    start = now();
    check(((int (*)(unsigned))find("cuInit"))(0), "cuInit");
    check(((int (*)(int *, int))find("cuDeviceGet"))(&device, 0), "cuDeviceGet");
    check(((int (*)(Handle *, int))find("cuDevicePrimaryCtxRetain"))(&context, device), "cuDevicePrimaryCtxRetain");
    check(((int (*)(Handle))find("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
    printf("context_seconds %.9f\n", now() - start);

    check(((int (*)(Handle *, const void *))find("cuModuleLoadData"))(&module, read_text(argv[1])), "cuModuleLoadData");
    check(((int (*)(Handle *, Handle, const char *))find("cuModuleGetFunction"))(&function, module, "add"), "function");
    check(((int (*)(CUdeviceptr *, size_t))find("cuMemAlloc_v2"))(&memory, COPY_NBYTES), "cuMemAlloc");

    {
        int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **,
                      void **) = find("cuLaunchKernel");
        int (*synchronize)(void) = find("cuCtxSynchronize");
        void *parameters[2];
        parameters[0] = &memory;
        parameters[1] = &amount;
        for (i = -3; i < BATCHES; i++) {
            start = now();
            for (j = 0; j < BATCH; j++)
                check(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), "cuLaunchKernel");
            if (i >= 0)
                seconds[i] = (now() - start) / BATCH;
            check(synchronize(), "cuCtxSynchronize");
        }
        printf("launch_seconds %.12f\n", median(seconds, BATCHES));
    }
    {
        int (*up)(CUdeviceptr, const void *, size_t) = find("cuMemcpyHtoD_v2");
        int (*down)(void *, CUdeviceptr, size_t) = find("cuMemcpyDtoH_v2");
        check(((int (*)(void **, size_t, unsigned))find("cuMemHostAlloc"))(&host, COPY_NBYTES, 1), "cuMemHostAlloc");
        memset(host, 1, COPY_NBYTES);
        for (i = 0; i < COPIES; i++) {
            start = now();
            check(up(memory, host, COPY_NBYTES), "cuMemcpyHtoD");
            seconds[i] = now() - start;
        }
        printf("upload_seconds %.9f\n", median(seconds, COPIES));
        for (i = 0; i < COPIES; i++) {
            start = now();
            check(down(host, memory, COPY_NBYTES), "cuMemcpyDtoH");
            seconds[i] = now() - start;
        }
        printf("download_seconds %.9f\n", median(seconds, COPIES));
    }
    return 0;
}
