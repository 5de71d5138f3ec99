// Many readers or one writer; a waiting writer goes before readers that come after it, so neither side starves.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace lethevec {

class FairLock {
public:
    void lock_shared() {
        std::lock_guard<std::mutex> turn(gate_);
        body_.lock_shared();
    }
    void unlock_shared() { body_.unlock_shared(); }
    void lock() {
        std::lock_guard<std::mutex> turn(gate_);
        body_.lock();
    }
    void unlock() { body_.unlock(); }

private:
    std::mutex gate_;
    std::shared_mutex body_;
};

}  // namespace lethevec
