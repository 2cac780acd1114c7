// Adds two matrices of any size: one thread for each element.
//   nvcc -O2 -o matadd matadd.cu && ./matadd 1000 700
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

__global__ void add(const float *a, const float *b, float *sum, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        size_t at = (size_t)row * columns + column;
        sum[at] = a[at] + b[at];
    }
}

int main(int argc, char **argv)
{
    int rows = argc > 1 ? atoi(argv[1]) : 100;
    int columns = argc > 2 ? atoi(argv[2]) : rows;
    if (rows < 1 || columns < 1) {
        fprintf(stderr, "usage: matadd ROWS [COLUMNS]\n");
        return 2;
    }
    size_t count = (size_t)rows * columns, bytes = count * sizeof(float);
    std::vector<float> a(count), b(count), sum(count);
    for (size_t i = 0; i < count; i++) {
        a[i] = (float)(i % 101);
        b[i] = (float)(i % 13) / 4;
    }

    float *device_a, *device_b, *device_sum;
    CHECK(cudaMalloc(&device_a, bytes));
    CHECK(cudaMalloc(&device_b, bytes));
    CHECK(cudaMalloc(&device_sum, bytes));
    CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));

    dim3 block(32, 8);
    dim3 grid((columns + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
    add<<<grid, block>>>(device_a, device_b, device_sum, rows, columns);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum.data(), device_sum, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_sum));

    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += sum[i] != a[i] + b[i];
    }
    printf("matadd %dx%d: %zu wrong: %s\n", rows, columns, wrong, wrong == 0 ? "PASS" : "FAIL");
    return wrong == 0 ? 0 : 1;
}
