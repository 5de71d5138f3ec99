// A loop over rows shared out among threads. The result must not depend on the cut: each row is its own work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "memory/registers.h"

namespace lethevec {

// Calls work(begin, end) over [0, n), on at most `threads` threads and with at least `grain` rows for each.
template <class Work>
void parallel_for(int64_t n, int64_t threads, int64_t grain, Work work) {
    const int64_t parts = std::max<int64_t>(1, std::min(threads, n / std::max<int64_t>(1, grain)));
    if (parts == 1) {
        work(int64_t{0}, n);
        return;
    }
    std::vector<std::exception_ptr> errors(static_cast<size_t>(parts));
    auto run = [&](int64_t part) {
        ClearedRegisters cleared;
        try {
            work(n * part / parts, n * (part + 1) / parts);
        } catch (...) {
            errors[static_cast<size_t>(part)] = std::current_exception();
        }
    };
    std::vector<std::thread> pool;
    pool.reserve(static_cast<size_t>(parts - 1));
    int64_t started = 1;
    try {
        for (; started < parts; ++started) pool.emplace_back(run, started);
    } catch (...) {
        // The system gave no more threads: this one does their share.
    }
    run(0);
    for (int64_t part = started; part < parts; ++part) run(part);
    for (auto& thread : pool) thread.join();
    for (auto& error : errors)
        if (error) std::rethrow_exception(error);
}

}  // namespace lethevec
