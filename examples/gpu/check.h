// Ends the program with the place and the words when a call of CUDA fails: an error that nobody looks at turns up as wrong
// numbers much later.
#pragma once
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t error_ = (call);                                                                    \
        if (error_ != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            exit(2);                                                                                    \
        }                                                                                               \
    } while (0)
