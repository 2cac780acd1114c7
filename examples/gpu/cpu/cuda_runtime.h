// As much of CUDA as the examples use, on the CPU: for tests and for learning where there is no GPU.
//
// The blocks of a grid run one after the other. The threads of a block are fibers: each runs until __syncthreads() or its
// end, then the next one does, so that what is behind a barrier sees all that is before it, as on a GPU. Memory of the
// device is memory of the host, streams do everything at once. Not here: warps and their intrinsics, textures, dynamic
// shared memory, launches from kernels.
#pragma once

#include <ucontext.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__ static
#define __device__
#define __host__
#define __constant__ static
// One block runs at a time, so what a block shares can be static.
#define __shared__ static

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cpu {

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    dim3 index;
    bool done;
};

inline ucontext_t scheduler;
inline Fiber *running;
inline const std::function<void()> *kernel;

inline void start()
{
    (*kernel)();
    running->done = true;
}

// Lets the other threads of the block come as far.
inline void barrier()
{
    Fiber *self = running;
    swapcontext(&self->context, &scheduler);
    running = self;
    threadIdx = self->index;
}

inline void run_block(std::vector<Fiber> &fibers, size_t stack_size)
{
    for (size_t i = 0; i < fibers.size(); i++) {
        Fiber &fiber = fibers[i];
        fiber.index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
        fiber.done = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = stack_size;
        fiber.context.uc_link = &scheduler;
        makecontext(&fiber.context, start, 0);
    }
    for (bool left = true; left;) {
        left = false;
        for (Fiber &fiber : fibers) {
            if (fiber.done) {
                continue;
            }
            running = &fiber;
            threadIdx = fiber.index;
            swapcontext(&scheduler, &fiber.context);
            left |= !fiber.done;
        }
    }
}

inline void run_grid(dim3 grid, dim3 block, const std::function<void()> &body)
{
    const size_t stack_size = 64 << 10;
    std::vector<Fiber> fibers((size_t)block.x * block.y * block.z);
    for (Fiber &fiber : fibers) {
        fiber.stack.reset(new char[stack_size]);
    }
    gridDim = grid;
    blockDim = block;
    kernel = &body;
    for (unsigned z = 0; z < grid.z; z++) {
        for (unsigned y = 0; y < grid.y; y++) {
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                run_block(fibers, stack_size);
            }
        }
    }
}

template <class... Parameters> struct Launch {
    void (*function)(Parameters...);
    dim3 grid, block;
    template <class... Arguments> void operator()(Arguments... arguments)
    {
        run_grid(grid, block, [&] { function(arguments...); });
    }
};

} // namespace cpu

// What `nvcc` beside this file makes of kernel<<<grid, block, ...>>>.
template <class... Parameters>
cpu::Launch<Parameters...> cpu_launch(void (*function)(Parameters...), dim3 grid, dim3 block, size_t = 0, void * = nullptr)
{
    return {function, grid, block};
}

inline void __syncthreads()
{
    cpu::barrier();
}

template <class T> T atomicAdd(T *at, T value)
{
    T old = *at;
    *at += value;
    return old;
}

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNoDevice = 100 };
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
typedef void *cudaStream_t;
typedef std::chrono::steady_clock::time_point *cudaEvent_t;

inline const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    default:
        return "no CUDA-capable device is detected";
    }
}

// As under Slurm: a job without a GPU finds none.
inline cudaError_t cudaGetDeviceCount(int *count)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *count = visible && *visible ? 1 : 0;
    for (; visible && *visible; visible++) {
        *count += *visible == ',';
    }
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

template <class T> cudaError_t cudaMalloc(T **at, size_t size)
{
    int devices;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) {
        return cudaErrorNoDevice;
    }
    *at = (T *)malloc(size ? size : 1);
    return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}

template <class T> cudaError_t cudaMallocHost(T **at, size_t size)
{
    return cudaMalloc(at, size);
}

inline cudaError_t cudaFree(void *at)
{
    free(at);
    return cudaSuccess;
}

inline cudaError_t cudaFreeHost(void *at)
{
    return cudaFree(at);
}

inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind)
{
    memcpy(to, from, size);
    return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t = nullptr)
{
    return cudaMemcpy(to, from, size, kind);
}

inline cudaError_t cudaMemset(void *at, int value, size_t size)
{
    memset(at, value, size);
    return cudaSuccess;
}

inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

inline cudaError_t cudaDeviceSynchronize()
{
    return cudaSuccess;
}

inline cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    *stream = nullptr;
    return cudaSuccess;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new std::chrono::steady_clock::time_point;
    return cudaSuccess;
}

inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr)
{
    *event = std::chrono::steady_clock::now();
    return cudaSuccess;
}

inline cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaSuccess;
}

inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    *milliseconds = std::chrono::duration<float, std::milli>(*end - *begin).count();
    return cudaSuccess;
}

inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}
