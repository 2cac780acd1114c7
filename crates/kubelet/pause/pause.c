/* The process that holds a pod's namespaces open.
 *
 * As process 1 of a shared pid namespace it inherits orphans and must reap them. It waits for signals
 * instead of handling them, so it needs no signal frames, no stack of its own and no C library.
 * SIGTERM and SIGINT end it. */

enum { SIG_BLOCK_ = 0, SIGINT_ = 2, SIGTERM_ = 15, SIGCHLD_ = 17, WNOHANG_ = 1 };

#if defined(__x86_64__)
enum { SYS_rt_sigprocmask_ = 14, SYS_exit_ = 60, SYS_wait4_ = 61, SYS_rt_sigtimedwait_ = 128 };

static long call(long number, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n and $-16, %rsp\n call run\n");
#elif defined(__aarch64__)
enum { SYS_rt_sigprocmask_ = 135, SYS_exit_ = 93, SYS_wait4_ = 260, SYS_rt_sigtimedwait_ = 137 };

static long call(long number, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}

__asm__(".globl _start\n_start:\n mov x29, #0\n bl run\n");
#else
#error "pause.c knows x86_64 and aarch64 only"
#endif

#define BIT(signal) (1UL << ((signal) - 1))

__attribute__((noreturn, used)) void run(void) {
    unsigned long set = BIT(SIGINT_) | BIT(SIGTERM_) | BIT(SIGCHLD_);
    call(SYS_rt_sigprocmask_, SIG_BLOCK_, (long)&set, 0, sizeof set);
    for (;;) {
        long signal = call(SYS_rt_sigtimedwait_, (long)&set, 0, 0, sizeof set);
        if (signal == SIGINT_ || signal == SIGTERM_)
            for (;;) call(SYS_exit_, 0, 0, 0, 0);
        while (call(SYS_wait4_, -1, 0, WNOHANG_, 0) > 0) {
        }
    }
}
