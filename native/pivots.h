// The candidate source "pivots": a partition of the records that is a function of a key and of the records, so that it
// forgets. Mirrors the spec's pivots.py.
//
// A keyed hash of its id makes a record a pivot; every record belongs to the cell of the centre nearest to it. Where there are
// no pivots at all, one cell around zero, the void, holds everything.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cells.h"
#include "centres.h"
#include "encoder.h"
#include "means.h"
#include "origins.h"
#include "query.h"
#include "siphash.h"
#include "source.h"
#include "wiped.h"

namespace lethevec {

struct PivotSettings final : SourceSettings {
    std::shared_ptr<const Encoder> encoder;  // progressive
    Metric metric = Metric::cosine;
    SipKey key;
    int64_t cell_size = 0;
    int64_t probes = 0;
    bool refine = false;

    std::unique_ptr<Source> make() const override;
};

class Pivots final : public Source {
public:
    explicit Pivots(const PivotSettings& settings);
    ~Pivots() override;

    bool ranks() const override { return true; }
    void add(const Rows& rows, const uint32_t* which, int64_t n, const float* x, int64_t threads,
             const std::function<void(int64_t)>& progress) override;
    void leave(const Rows& rows, uint32_t row) override;
    void renumber(const Rows& rows, uint32_t last, uint32_t row) override;
    SourceWork candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                          const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                          std::vector<size_t>& ends) const override;
    int64_t bytes() const override;
    void raw_memory(std::vector<uint8_t>& all) const override;

    // For tests and statistics.
    int64_t cells() const { return centres_.size(); }
    bool is_void() const { return void_; }
    const Centres& centres() const { return centres_; }
    const Origins& origins() const { return origins_; }
    const Means& means() const { return means_; }
    const Cells& contents() const { return cells_; }
    // The cell and slot that a row says it is in; false where it is in none.
    bool find(uint32_t row, uint32_t& cell, uint32_t& slot) const;

private:
    static constexpr int64_t STRIDE = 4096;  // rows whose cells are found, and which are then filed
    static constexpr int64_t GRAIN = 64;     // rows that are worth a thread
    // What has become of a cell: other rows, other members that its origin is the mean of, another origin.
    static constexpr uint8_t CHANGED = 1, SAMPLE = 2, MOVED = 4;

    static constexpr uint32_t NONE = UINT32_MAX;
    static constexpr uint32_t PIECE_ROWS = 4096;

    // Where a row is filed: one more than its cell (0: nowhere), its slot there, and its squared distance to the centre.
    struct Link {
        uint32_t cell, slot;
        float distance;
    };
    struct Move {
        uint32_t row, to;
        float distance;
    };
    // Refined centres: the pivot that a sampled row is at home with (one more than its number, 0: none), and how far it is.
    struct Home {
        uint32_t pivot;
        float distance;
    };
    // What became of a row's home; to undo it, if need be.
    struct Rehoming {
        uint32_t row;
        Home before, after;
    };
    struct Piece {
        std::unique_ptr<Link[]> links;
        std::unique_ptr<Home[]> homes;
        uint32_t rows = 0;
    };
    // Refined centres: positions of the pivots, numbered as the cells are, and sums over each and its sampled records.
    struct Samples {
        explicit Samples(int64_t d) : pivots(d), sums(d), counts(1) {}
        Centres pivots;
        Means sums;
        Growing<int64_t> counts;
    };

    bool is_pivot(int64_t id) const { return siphash(settings_.key, static_cast<uint64_t>(id)) < limit_; }
    Link& link(uint32_t row) const { return pieces_[row / PIECE_ROWS].links[row % PIECE_ROWS]; }
    Home& home(uint32_t row) const { return pieces_[row / PIECE_ROWS].homes[row % PIECE_ROWS]; }
    bool filed(uint32_t row) const;
    void take_piece(uint32_t row);
    void release_piece(uint32_t row);

    // z: the vector, or its direction under cosine.
    void geometry(const float* x, int64_t n, float* z) const;
    void append_centre(int64_t id, const float* z, double norm);
    // Its cell is empty. The last cell takes its number.
    void remove_centre(uint32_t c);
    HashedId hashed(int64_t id) const { return {siphash(settings_.key, static_cast<uint64_t>(id)), id}; }
    void place(const Rows& rows, const uint32_t* which, int64_t n, const float* x, uint32_t without, int64_t threads,
               const std::function<void(int64_t)>& progress, int64_t& placed);
    // A row is filed without a code, which `settle` makes.
    void put(int64_t id, uint32_t row, const float* z, uint32_t cell, float distance);
    void take_out(int64_t id, uint32_t row, const float* z);
    void take_out(const Rows& rows, uint32_t row);

    // Rows of a cell to wherever is nearest, `without` and the row `except` left out.
    void plan_own(const Rows& rows, uint32_t cell, uint32_t without, uint32_t except, int64_t threads,
                  std::vector<Move>& moves) const;
    // Rows of other cells to those of these centres that are nearer to them. Cells that are `planned` already, and the row
    // `except`, are left out.
    void plan_takeovers(const Rows& rows, const std::vector<uint32_t>& changed, const std::vector<uint8_t>& planned,
                        uint32_t except, int64_t threads, std::vector<Move>& moves) const;
    // Makes the room that `make_moves` needs.
    void prepare_moves(const std::vector<Move>& moves);
    void make_moves(const Rows& rows, const std::vector<Move>& moves);
    // Distances are something of a record too.
    static void wipe_moves(std::vector<Move>& moves) { wipe(moves.data(), moves.size() * sizeof(Move)); }
    class Search;

    // Memory that one thread codes with; see recoding.cpp.
    struct Workspace {
        Workspace(int64_t d, const Encoder& encoder);
        ~Workspace() { clear(); }
        void clear() noexcept;
        AlignedVector<float> z, residual, scratch;
        AlignedVector<int64_t> sum;
        AlignedVector<uint8_t> code;
    };
    // Origins and codes of all cells that have changed, where these rows came or moved.
    void settle(const Rows& rows, const uint32_t* which, int64_t n, const std::vector<Move>& moves, int64_t threads) noexcept;
    template <class Work>
    void with_workspaces(int64_t n, int64_t threads, int64_t grain, Work work) noexcept;
    bool find_origin(const Rows& rows, int64_t c, Workspace& space);
    void code(const Rows& rows, uint32_t cell, uint32_t slot, Workspace& space);

    // Refined centres; see refined.cpp. Homes of rows that came or whose pivot is new, and those that lost their pivot.
    bool sampled(int64_t id) const;
    void find_homes(const Rows& rows, const uint32_t* which, int64_t n, const std::vector<uint32_t>& fresh, bool ends_void,
                    std::vector<Rehoming>& journal);
    void lose_homes(const Rows& rows, uint32_t gone, uint32_t row, std::vector<Rehoming>& journal);
    void rehome(const Rows& rows, const Rehoming& change, bool back);
    // Moves the centres whose sums have changed; `changed` gets those that are elsewhere now, `old` where they were.
    void recentre(const std::vector<Rehoming>& journal, const std::vector<uint32_t>& fresh, uint32_t without,
                  std::vector<uint32_t>& changed, std::vector<float>& old);

    // The first cell from c on that has changed in some way, or their number.
    int64_t next_stale(int64_t c) const;
    // Brings the means of changed cells up to date, and their memory to what it should be.
    void refresh();

    PivotSettings settings_;
    int64_t d_;
    uint64_t limit_;
    CellShape shape_;
    bool void_ = true;
    Centres centres_;
    Origins origins_;  // their values: the origin in the coordinates of every plane
    Means means_;
    Cells cells_;
    std::unique_ptr<Samples> samples_;  // where centres are refined
    std::vector<Piece> pieces_;
    std::vector<uint8_t> stale_;    // what has become of each cell
    AlignedVector<float> scratch_;  // of refresh, so that it cannot fail
    Workspace own_;                 // of settle, likewise
};

}  // namespace lethevec
