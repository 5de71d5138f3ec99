// The candidate source "pivots": a partition of the records that is a function of a key and of the records, so that it
// forgets. Mirrors the spec's pivots.py.
//
// A keyed hash of its id makes a record a pivot; every record belongs to the cell of the centre nearest to it. Where
// there are no pivots at all, one cell around zero, the void, holds everything.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "hashing/encoder.h"
#include "memory/wiped.h"
#include "query/prepared.h"
#include "rows/siphash.h"
#include "sources/pivots/cells.h"
#include "sources/pivots/centres.h"
#include "sources/pivots/hash_order.h"
#include "sources/pivots/means.h"
#include "sources/pivots/origins.h"
#include "sources/source.h"

namespace lethevec {

struct PivotSettings final : SourceSettings {
    std::shared_ptr<const Encoder> encoder;  // progressive
    Metric metric = Metric::cosine;
    SipKey key;
    int64_t cell_size = 0;  // 0: it follows the number of records
    int64_t probes = 0;
    bool refine = false;

    std::unique_ptr<Source> make() const override;
    // Of so many records, those are pivots whose hashes are below it.
    uint64_t limit(int64_t records) const;
};

// Some rows: a short list, or a bit for each row that there is.
class RowSet {
public:
    RowSet() = default;
    RowSet(int64_t rows, const uint32_t* which, int64_t n) : count_(n <= FEW ? n : 0) {
        if (n <= FEW) {
            std::copy(which, which + n, few_);
            return;
        }
        bits_.resize(static_cast<size_t>((rows + 63) / 64));
        for (int64_t i = 0; i < n; ++i) bits_[which[i] / 64] |= uint64_t{1} << (which[i] % 64);
    }
    bool has(uint32_t row) const {
        if (!bits_.empty()) return bits_[row / 64] >> (row % 64) & 1;
        return std::find(few_, few_ + count_, row) != few_ + count_;
    }

private:
    static constexpr int64_t FEW = 4;
    uint32_t few_[FEW] = {};
    int64_t count_ = 0;
    std::vector<uint64_t> bits_;
};

class Pivots final : public Source {
public:
    explicit Pivots(const PivotSettings& settings);

    // None: the cells have codes of their own, and give only rows that are worth their true distance.
    Layout layout(const Encoder&, Metric, bool) const override { return {}; }
    void add(const NewRows& added, int64_t threads, const Progress& progress) override;
    // Many that leave together cost less than one by one, and never more than to file again those that stay.
    void leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads, const Progress& progress) override;
    std::unique_ptr<Source> copy_for(int64_t n) const override;
    std::unique_ptr<Source> copy_without(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads,
                                         const Progress& progress) const override;
    void foresee_add(const Rows& rows, const float* x, const int64_t* ids, int64_t n, int64_t threads) override;
    void foresee_leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads) override;
    void forget_foreseen() override;
    void renumber(const Rows& rows, uint32_t last, uint32_t row) override;
    // See image.cpp. None where centres are refined.
    std::vector<uint8_t> image(const Rows& rows, const uint32_t* which, int64_t n) const override;
    bool restore(const NewRows& added, const uint8_t* image, size_t bytes, int64_t threads,
                 const Progress& progress) override;
    int64_t queries_together(const Scope& scope) const override;
    // From so many bytes of codes on, which is more than caches have, queries of a batch go through the cells in step,
    // and look at about so many bytes of first planes together. Other numbers are for tests.
    static constexpr int64_t STEPS_FROM = 48 << 20, STEP = 1 << 17;
    static void go_in_step(int64_t from, int64_t step) { steps_from_ = from, step_ = step; }
    SearchWork candidates(const Scope& scope, Sought& sought) const override { return candidates(scope, &sought, 1); }
    SearchWork candidates(const Scope& scope, Sought* sought, int64_t n) const override;
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
    // Changes of fewer rows are made in place, and so are those of so small a share of the rows that a copy would take
    // longer than the change.
    static constexpr int64_t WORTH_A_COPY = 256, WORTH_A_COPY_SHARE = 16384;
    // Of the work that a new structure takes; what is done besides to change an old one makes up for the rest.
    static constexpr double REBUILD_FROM = 0.6;
    static constexpr double SAMPLED_SHARE = 1.0 / 16;
    // What has become of a cell: other rows, other members that its origin is the mean of, another origin. And, while
    // an image is read, that its mean has all of its rows: a thread for which there was no memory leaves its cells to
    // others.
    static constexpr uint8_t CHANGED = 1, SAMPLE = 2, MOVED = 4, FILLED = 8;

    static constexpr uint32_t NONE = UINT32_MAX;
    static constexpr uint32_t PIECE_ROWS = 4096;

    // Where a row is filed: one more than its cell (0: nowhere), its slot there, and its squared distance to the
    // centre.
    struct Link {
        uint32_t cell, slot;
        float distance;
    };
    struct Move {
        uint32_t row, to;
        float distance;
    };
    // A row, and the number of a centre that may be nearer to it than its own.
    struct Rival {
        uint32_t row, centre;
    };
    // What was found out for the next change: the rivals of pivots that are to come. Searches never look at it.
    struct Foreseen {
        WipedVector<int64_t> ids;
        WipedVector<Rival> rivals;
        uint64_t change = 0;  // valid before this change alone
    };
    // Refined centres: the pivot that a sampled row is at home with (one more than its number, 0: none), and how far it
    // is.
    struct Home {
        uint32_t pivot;
        float distance;
    };
    // What became of a row's home; to undo it, if need be.
    struct Rehoming {
        uint32_t row;
        Home before, after;
    };
    struct RowList {
        const uint32_t* which = nullptr;
        int64_t n = 0;
    };
    struct Piece {
        WipedVector<Link> links;
        WipedVector<Home> homes;
        uint32_t rows = 0;
    };
    // What a call changes, and what it takes to undo it. Distances and centres are something of a record too.
    struct Change {
        WipedVector<uint32_t> promoted, demoted;  // rows that become pivots, and that were
        bool ends_void = false, becomes_void = false;
        CentreNumbers gone;           // centres that leave
        CentreNumbers changed;        // those that are elsewhere, then those that are new
        WipedVector<float> old;       // where the former were
        WipedVector<Rehoming> homes;  // in the order in which they changed
        WipedVector<Move> moves;
    };
    // Refined centres: positions of the pivots, numbered as the cells are, and sums over each and its sampled records.
    struct Samples {
        Samples(int64_t d, Metric metric) : pivots(d), sums(d, metric), counts(1) {}
        Centres pivots;
        Means sums;
        Growing<int64_t> counts;
    };

    Pivots(const Pivots& other);
    // Whether the size of cells follows the number of records.
    bool follows() const { return settings_.cell_size == 0; }
    bool is_pivot(int64_t id) const { return siphash(settings_.key, static_cast<uint64_t>(id)) < limit_; }
    Link& link(uint32_t row) { return pieces_[row / PIECE_ROWS].links[row % PIECE_ROWS]; }
    const Link& link(uint32_t row) const { return pieces_[row / PIECE_ROWS].links[row % PIECE_ROWS]; }
    Home& home(uint32_t row) { return pieces_[row / PIECE_ROWS].homes[row % PIECE_ROWS]; }
    const Home& home(uint32_t row) const { return pieces_[row / PIECE_ROWS].homes[row % PIECE_ROWS]; }
    bool filed(uint32_t row) const;
    void take_piece(uint32_t row);
    void fill_piece(Piece& piece) const;
    void release_piece(uint32_t row);

    // z: the vector, or its direction under cosine.
    void geometry(const float* x, int64_t n, float* z) const;
    void append_centre(int64_t id, const float* z, double norm);
    // Their cells are empty. The last cell takes the number of one that goes. `numbers` has room for all centres.
    void remove_centres(const CentreNumbers& gone, CentreNumbers& numbers);
    void remove_last_centre();
    void settle();
    // Of those of these rows that are pivots, ascending.
    CentreNumbers centres_of(const Rows& rows, const uint32_t* which, int64_t n) const;
    HashedId hashed(int64_t id) const { return {siphash(settings_.key, static_cast<uint64_t>(id)), id}; }
    WipedVector<HashedId> hashed(const Rows& rows, const uint32_t* which, int64_t n) const;
    void find_pivots(const Rows& rows, uint64_t limit, const RowSet& leaving, Change& change);
    void plan(const Rows& rows, RowList coming, RowList going, const RowSet& leaving, int64_t threads,
              const Progress& progress, Change& change);
    void finish(const Change& change, CentreNumbers& numbers);
    void place(const Rows& rows, const uint32_t* which, int64_t n, const CentreNumbers& without, int64_t threads,
               const Progress& progress, int64_t& placed);
    // Whether a new structure of those that stay takes less than to let these go.
    bool sooner_rebuilt(const Rows& rows, const uint32_t* which, int64_t n) const;
    // A row is filed without a code, which `recode` makes.
    void put(int64_t id, uint32_t row, const float* z, uint32_t cell, float distance);
    void take_out(int64_t id, uint32_t row, const float* z);
    void take_out(const Rows& rows, uint32_t row);
    // Rows that are neither pivots nor in a sample: nobody else moves.
    void leave_quietly(const Rows& rows, const uint32_t* which, int64_t n, float* z, const Progress& progress);
    void undo(const Rows& rows, const Change& change);

    // Rows of some cells to wherever is nearest. Centres that are `gone` and rows that are leaving are left out.
    void plan_own(const Rows& rows, const CentreNumbers& cells, const CentreNumbers& gone, const RowSet& leaving,
                  int64_t threads, const Progress& progress, WipedVector<Move>& moves) const;
    // Rows of other cells to those of these centres that are nearer to them. Cells that are `planned` already, and rows
    // that are leaving, are left out.
    void plan_takeovers(const Rows& rows, const CentreNumbers& changed, const std::vector<uint8_t>& planned,
                        const RowSet& leaving, int64_t threads, const Progress& progress, WipedVector<Move>& moves);
    void find_rivals(const Rows& rows, const float* centres, int64_t count, int64_t threads, const Progress& progress,
                     WipedVector<Rival>& rivals) const;
    void foresee(const Rows& rows, const float* z, WipedVector<int64_t>& ids, int64_t threads);
    bool was_foreseen(const CentreNumbers& fresh) const;
    // Makes the room that `make_moves` needs.
    void prepare_moves(const WipedVector<Move>& moves);
    void make_moves(const Rows& rows, const WipedVector<Move>& moves, const Progress& progress);
    class Search;
    static inline std::atomic<int64_t> steps_from_{STEPS_FROM}, step_{STEP};

    // Memory that one thread codes with; see recoding.cpp.
    struct Workspace {
        Workspace(int64_t d, const Encoder& encoder);
        void zero() noexcept;
        WipedVector<float> z, residual, scratch;
        WipedVector<int64_t> sum;
        WipedVector<uint8_t> code;
    };
    // Origins and codes of all cells that have changed, where these rows came or moved. Cannot fail, unless `progress`
    // throws.
    void recode(const Rows& rows, const uint32_t* which, int64_t n, const WipedVector<Move>& moves, int64_t threads,
                const Progress& progress);
    template <class Work>
    void with_workspaces(int64_t begin, int64_t end, int64_t threads, int64_t grain, Work work) noexcept;
    void recode_cells(const Rows& rows, int64_t begin, int64_t end, Workspace& space);
    // Means, distances, origins and codes of cells whose rows have only just been put there. Cell by cell: its vectors
    // are in the cache when they are read again. Cannot fail likewise.
    void fill_cells(const Rows& rows, int64_t threads, const Progress& progress);
    void fill_cell(const Rows& rows, int64_t c, Workspace& space);
    bool find_origin(const Rows& rows, int64_t c, Workspace& space);
    void code(const Rows& rows, uint32_t cell, uint32_t slot, Workspace& space);

    // Refined centres; see refined.cpp. Homes of rows that came or whose pivot is new, and those that lost their pivot.
    bool sampled(int64_t id) const;
    void find_homes(const Rows& rows, const uint32_t* which, int64_t n, const RowSet& leaving,
                    const CentreNumbers& fresh, const Progress& progress, Change& change);
    void lose_homes(const Rows& rows, const uint32_t* which, int64_t n, const RowSet& leaving, const Progress& progress,
                    Change& change);
    void home_anywhere(const Rows& rows, const std::vector<uint32_t>& homeless, const CentreNumbers& without,
                       const Progress& progress, WipedVector<Rehoming>& journal);
    void rehome(const Rows& rows, uint32_t row, Home after, WipedVector<Rehoming>& journal);
    void exchange_home(const Rows& rows, uint32_t row, Home from, Home to);
    // Moves the centres whose sums have changed, but those that are `gone`, and those of `fresh` pivots.
    void recentre(const CentreNumbers& fresh, Change& change);

    // The first cell from c on that has changed in some way, or their number.
    int64_t next_stale(int64_t c) const;
    // Brings the means of changed cells up to date, and their memory to what it should be.
    void refresh();

    PivotSettings settings_;
    int64_t d_;
    uint64_t limit_;   // hashes below it make pivots
    HashOrder order_;  // where the limit follows the number of records
    CellShape shape_;
    bool void_ = true;
    Centres centres_;
    Origins origins_;  // their values: the origin in the coordinates of every plane
    Means means_;
    Cells cells_;
    std::unique_ptr<Samples> samples_;  // where centres are refined
    std::vector<Piece> pieces_;
    Foreseen foreseen_;
    uint64_t changes_ = 1;        // so many there have been
    int64_t filed_ = 0;           // rows
    std::vector<uint8_t> stale_;  // what has become of each cell
    WipedVector<float> scratch_;  // of refresh, so that it cannot fail
    Workspace own_;               // of recode, likewise
};

}  // namespace lethevec
