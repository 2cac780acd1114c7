// Multiplies matrices of any size, tile by tile: each block of threads brings a square of both matrices into the fast memory
// that its threads share, and every number brought there is used TILE times.
//   nvcc -O2 -o matmul matmul.cu && ./matmul 1000 700 300
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

#define TILE 16

// c (rows x columns) = a (rows x inner) * b (inner x columns)
__global__ void multiply(const float *a, const float *b, float *c, int rows, int inner, int columns)
{
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int first = 0; first < inner; first += TILE) {
        int column_a = first + threadIdx.x;
        int row_b = first + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < rows && column_a < inner ? a[(size_t)row * inner + column_a] : 0;
        tile_b[threadIdx.y][threadIdx.x] = row_b < inner && column < columns ? b[(size_t)row_b * columns + column] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; k++) {
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < rows && column < columns) {
        c[(size_t)row * columns + column] = sum;
    }
}

int main(int argc, char **argv)
{
    int rows = argc > 1 ? atoi(argv[1]) : 100;
    int inner = argc > 2 ? atoi(argv[2]) : rows;
    int columns = argc > 3 ? atoi(argv[3]) : rows;
    if (rows < 1 || inner < 1 || columns < 1) {
        fprintf(stderr, "usage: matmul ROWS [INNER [COLUMNS]]\n");
        return 2;
    }
    std::vector<float> a((size_t)rows * inner), b((size_t)inner * columns), c((size_t)rows * columns);
    for (size_t i = 0; i < a.size(); i++) {
        a[i] = (float)(i % 7) - 3;
    }
    for (size_t i = 0; i < b.size(); i++) {
        b[i] = (float)(i % 5) - 2;
    }

    float *device_a, *device_b, *device_c;
    CHECK(cudaMalloc(&device_a, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&device_b, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&device_c, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(device_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

    dim3 block(TILE, TILE);
    dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin));
    multiply<<<grid, block>>>(device_a, device_b, device_c, rows, inner, columns);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(cudaMemcpy(c.data(), device_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));

    double worst = 0;
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            double sum = 0;
            for (int k = 0; k < inner; k++) {
                sum += (double)a[(size_t)i * inner + k] * b[(size_t)k * columns + j];
            }
            worst = fmax(worst, fabs(sum - c[(size_t)i * columns + j]));
        }
    }
    bool good = worst <= 1e-5 * inner;
    double operations = 2.0 * rows * inner * columns;
    printf("matmul %dx%dx%d: %.3f ms, %.2f GFLOP/s, error %g: %s\n", rows, inner, columns, milliseconds,
           operations / milliseconds / 1e6, worst, good ? "PASS" : "FAIL");
    return good ? 0 : 1;
}
