#include "fair_lock.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <thread>

namespace lethevec {

namespace {

// How many forks led to this process, and how many are being made now.
std::atomic<unsigned> generation{0};
std::atomic<int> forking{0};

#if !defined(_WIN32)

// A fork copies memory page by page while other threads go on. So no change begins or ends during it: whether one is
// under way is then as true in the child as it was before the fork.
void before_fork() { ++forking; }
void after_fork_in_parent() { --forking; }
void after_fork_in_child() {
    forking = 0;
    ++generation;
}

void watch_forks() {
    static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    (void)registered;
}

#else

void watch_forks() {}  // Windows knows no fork

#endif

void wait_for_forks() {
    while (forking) std::this_thread::yield();
}

}  // namespace

FairLock::FairLock() : generation_(generation) { watch_forks(); }

bool FairLock::inherited() const { return generation_ != generation.load(std::memory_order_relaxed); }

void FairLock::refuse_half_changed() const {
    if (changing_)
        throw Inherited(
            "expected an index that nobody was changing when this process was forked, got one in the middle of a "
            "change; fork while no thread changes it, or load it in this process");
}

void FairLock::begin_change() {
    if (inherited())
        throw Inherited(
            "expected a change in the process that made the index, got one in a process that was forked from it");
    changes_.lock();
    for (;;) {
        changing_ = true;
        if (!forking) return;
        changing_ = false;
        wait_for_forks();
    }
}

void FairLock::end_change() {
    wait_for_forks();
    changing_ = false;
    changes_.unlock();
}

// New readers come all the time where there are many: those who waited first have had their turn by then.
void FairLock::let_readers_in() const {
    constexpr int TURNS = 1000;
    for (int turn = 0; waiting_ > 0 && turn < TURNS; ++turn) std::this_thread::yield();
}

}  // namespace lethevec
