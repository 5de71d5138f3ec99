// Many readers or one writer; a waiting writer goes before readers that come after it, so neither side starves.
//
// A child that was forked has copies of its parent's locks, some of them held by threads that it does not have. So it
// takes none that it has inherited. What such a lock guards cannot be changed in the child, and without changes readers
// need no lock. They are refused if a change was under way at the fork: the child has a part of it.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>

namespace lethevec {

// A call that a forked child cannot make on what it has inherited.
struct Inherited : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class FairLock {
public:
    FairLock();
    FairLock(const FairLock&) = delete;
    FairLock& operator=(const FairLock&) = delete;

    // A whole change, which takes the lock once or several times; other changes wait until it ends. Throws Inherited.
    class Change {
    public:
        explicit Change(FairLock& lock) : lock_(lock) { lock_.begin_change(); }
        ~Change() { lock_.end_change(); }
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;

    private:
        FairLock& lock_;
    };

    // For readers. Throws Inherited.
    void lock_shared() {
        if (inherited()) return refuse_half_changed();
        ++waiting_;
        {
            std::lock_guard<std::mutex> turn(gate_);
            body_.lock_shared();
        }
        --waiting_;
    }
    void unlock_shared() {
        if (!inherited()) body_.unlock_shared();
    }
    // For a writer, within its change.
    void lock() {
        if (inherited()) return;
        std::lock_guard<std::mutex> turn(gate_);
        body_.lock();
    }
    void unlock() {
        if (!inherited()) body_.unlock();
    }

    // For a writer between two times that it takes the lock: readers that wait for it get their turn first.
    void let_readers_in() const;

    // Whether this is a child that was forked from the process that made it.
    bool inherited() const;

private:
    void refuse_half_changed() const;
    void begin_change();
    void end_change();

    std::mutex changes_;  // held for a whole change
    std::mutex gate_;
    std::shared_mutex body_;
    std::atomic<int> waiting_{0};  // readers
    unsigned generation_;          // of processes; see fair_lock.cpp
    std::atomic<bool> changing_{false};
};

}  // namespace lethevec
