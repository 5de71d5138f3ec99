// Records that come or go: which lists change, and what they become. Nothing else is touched.
//
// From cause to effect, stage after stage, each vertex once in each stage: pivots and whom they are near to; cells;
// pools of those that look into a cell that has changed; what is kept of a pool; parents, edges and lists. Until the
// lists are written, all that is changed is put down in a journal, so that it can be taken back where there is no
// memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/wipe.h"
#include "sources/graph/data.h"
#include "sources/graph/rules.h"

namespace lethevec {

class GraphChange {
public:
    GraphChange(const GraphSettings& settings, GraphData& graph, const Rows& rows);
    ~GraphChange();

    // Both do all of it or, when they throw, nothing. They return false, having done nothing, where the graph has to be
    // built instead: when the first pivot comes or the last one goes.
    bool join(const uint32_t* which, int64_t n);
    bool leave(const uint32_t* which, int64_t n);

private:
    enum class What : uint8_t { near, pool, kept, edges, vertex, put, taken, slot, pivot };
    // Lists that vertices are put in and taken out of.
    enum class In : uint8_t { sought_by, children, members, watchers };
    // A list as it was.
    struct Saved {
        const uint32_t* from = nullptr;
        int64_t n = 0;
        const uint32_t* begin() const { return from; }
        const uint32_t* end() const { return from + n; }
    };
    struct Entry {
        What what;
        In in;
        uint32_t vertex, other;
        Vertex before;
        Saved list;
    };
    enum Mark : uint8_t {
        NEAR = 1,
        POOL = 2,
        OTHER_CELLS = 4,
        PARENT = 8,
        EDGES = 16,
        LIST = 32,
        FRESH = 64,
        LOSES = 128
    };
    struct Hashed {
        uint64_t hash;
        uint32_t row;
    };

    // Nothing in it is moved, so that nothing of it is left elsewhere.
    class Journal {
    public:
        ~Journal() {
            for (size_t i = 0; i < size_; ++i) wipe(&(*this)[i].before, sizeof(Vertex));
        }
        size_t size() const { return size_; }
        Entry& operator[](size_t i) { return pieces_[i / PIECE][i % PIECE]; }
        Entry& back() { return (*this)[size_ - 1]; }
        void push_back(Entry&& entry) {
            if (size_ == pieces_.size() * PIECE) {
                pieces_.reserve(pieces_.size() + 1);
                pieces_.push_back(std::make_unique<Entry[]>(PIECE));
            }
            (*this)[size_++] = std::move(entry);
        }

    private:
        static constexpr size_t PIECE = 256;
        std::vector<std::unique_ptr<Entry[]>> pieces_;
        size_t size_ = 0;
    };

    // Where such lists are. None of them is moved.
    class SavedLists {
    public:
        Saved save(const uint32_t* from, int64_t n) {
            if (left_ < n) {
                const int64_t size = std::max(n, PIECE << std::min<size_t>(pieces_.size(), 4));
                WipedVector<uint32_t> piece;
                piece.resize_unfilled(static_cast<size_t>(size));
                pieces_.push_back(std::move(piece));
                left_ = size;
                next_ = pieces_.back().data();
            }
            std::copy_n(from, n, next_);
            const Saved saved = {next_, n};
            next_ += n;
            left_ -= n;
            return saved;
        }

    private:
        static constexpr int64_t PIECE = 1 << 12;
        std::vector<WipedVector<uint32_t>> pieces_;
        uint32_t* next_ = nullptr;
        int64_t left_ = 0;
    };

    // Steps that are put down in the journal.
    VertexList& list(In in, uint32_t v);
    void put(In in, uint32_t v, uint32_t other);
    void take(In in, uint32_t v, uint32_t other);
    Saved remember(What what, uint32_t v);  // the list, where it is one
    void undo() noexcept;

    // Lists a vertex, once, unless it is going.
    void mark(uint32_t v, Mark flag, std::vector<uint32_t>& listed);
    bool is(uint32_t v, Mark flag) const { return marks_[v] & flag; }
    uint32_t new_stamp();
    void ask_for_pool(uint32_t x) const;
    bool pool_stays(uint32_t x, uint32_t moved) const;  // the stamp of those that were in another cell
    void merge(uint32_t x, VertexList& pool, const FarList& some);

    uint32_t equal_vertex(const float* z, uint64_t hash, uint32_t pivot) const;
    uint32_t new_vertex(const float* z, const Hashed& hashed);

    // The stages.
    void change();
    void lose_pivots();
    void gain_pivots();
    void gain_pivot(uint32_t pivot);
    void set_near(uint32_t x, const VertexList& near, float far, bool all);
    void change_cells();
    void find_pools();
    void update_pool(uint32_t x);
    void set_pool(uint32_t x, const VertexList& pool, float far, bool all);
    void find_kept();
    bool keep_quickly(uint32_t x, const Saved& before, VertexList& kept);
    void set_kept(uint32_t x, const VertexList& kept);
    void find_root();
    void find_parents();
    bool edges_quickly(uint32_t x, VertexList& edges);
    void find_edges();
    void prepare_lists();
    void finish() noexcept;

    const GraphSettings& settings_;
    GraphData& g_;
    const Rows& rows_;
    const Rules rules_;
    RuleSpace space_;
    EdgeWriter writer_;
    SavedLists saved_;
    Journal journal_;
    std::vector<uint8_t>&marks_, &going_;
    std::vector<uint32_t> gone_, fresh_;                                    // vertices
    std::vector<uint32_t> near_, pool_, edges_, parents_, lists_, losing_;  // those that are marked so
    std::unordered_map<uint32_t, Saved> old_near_;                          // of near_, as far as the definition goes
    std::vector<std::pair<uint32_t, Saved>> changed_pools_;                 // with what they were, likewise
    std::unordered_map<uint32_t, std::vector<uint32_t>> joined_;            // cells, and who is new in them
    std::vector<uint32_t> moved_;                                           // those that were in another cell
    std::vector<FarList> fresh_near_;  // of fresh_, the nearest pivots that there were before
    std::vector<uint32_t> outside_;
    std::vector<uint8_t> reached_by_;
    std::vector<size_t> added_;
    std::vector<uint32_t>& stamps_;
    VertexList scratch_;
    std::vector<Saved> new_lists_;
    uint32_t old_root_;
    uint64_t old_entry_limit_;
};

}  // namespace lethevec
