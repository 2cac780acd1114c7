// Scales a long row of numbers in batches on two streams: while one batch is computed, the next is on its way to the GPU and
// the last on its way back.
//   nvcc -O2 -o streams streams.cu && ./streams 4000000 8
#include <cstdio>
#include <cstdlib>

#include "check.h"

#define STREAMS 2

__global__ void scale(float *values, float factor, int count)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        values[i] = values[i] * factor + 1;
    }
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 100000;
    int batches = argc > 2 ? atoi(argv[2]) : 8;
    if (count < 1 || batches < 1 || batches > count) {
        fprintf(stderr, "usage: streams COUNT [BATCHES]\n");
        return 2;
    }
    int batch = (count + batches - 1) / batches;
    size_t bytes = (size_t)batch * sizeof(float);

    // Copies overlap with work only from memory that the system cannot move.
    float *values;
    CHECK(cudaMallocHost(&values, (size_t)count * sizeof(float)));
    for (int i = 0; i < count; i++) {
        values[i] = (float)(i % 1000);
    }
    cudaStream_t streams[STREAMS];
    float *device[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cudaStreamCreate(&streams[s]));
        CHECK(cudaMalloc(&device[s], bytes));
    }

    for (int n = 0; n * batch < count; n++) {
        int s = n % STREAMS, first = n * batch;
        int here = count - first < batch ? count - first : batch;
        size_t size = (size_t)here * sizeof(float);
        CHECK(cudaMemcpyAsync(device[s], values + first, size, cudaMemcpyHostToDevice, streams[s]));
        scale<<<32, 128, 0, streams[s]>>>(device[s], 2.0f, here);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(values + first, device[s], size, cudaMemcpyDeviceToHost, streams[s]));
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cudaStreamSynchronize(streams[s]));
        CHECK(cudaStreamDestroy(streams[s]));
        CHECK(cudaFree(device[s]));
    }

    size_t wrong = 0;
    for (int i = 0; i < count; i++) {
        wrong += values[i] != (float)(i % 1000) * 2 + 1;
    }
    CHECK(cudaFreeHost(values));
    printf("streams %d in %d batches: %zu wrong: %s\n", count, batches, wrong, wrong == 0 ? "PASS" : "FAIL");
    return wrong == 0 ? 0 : 1;
}
