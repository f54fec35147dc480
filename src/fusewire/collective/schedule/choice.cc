// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/schedule/choice.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include "fusewire/base/parse.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire::collective {
namespace {

// The cache of one processor, about; and the additional cost, as a share, of a byte if more than that is in flight.
constexpr double kCacheBytes = 1 << 20;
constexpr double kUncachedShare = 0.3;

// The work of the busiest rank, and of all ranks together. Shares are of `bytes`.
struct Work {
  double ways = 0;      // latencies, one after the other
  double messages = 0;  // of the busiest rank
  double sent = 0;      // share of bytes, of the busiest rank
  double reduced = 0;
  double all_messages = 0;
  double all_sent = 0;
  double all_reduced = 0;
};

double Log2Up(double n) { return std::bit_width(static_cast<uint64_t>(n) - 1); }

// All ranks do the same work.
Work Even(double n, double ways, double messages, double sent, double reduced) {
  return {ways, messages, sent, reduced, n * messages, n * sent, n * reduced};
}

// If the number of ranks is not a power of two, the first pairs need two more latencies, see schedule_reduce.cc, Fold.
double FoldWays(double n) { return std::has_single_bit(static_cast<uint64_t>(n)) ? 0 : 2; }

// The flat algorithm that a two-level one is within a host.
Algorithm FlatOf(CollectiveKind kind, Algorithm algorithm) {
  if (algorithm != Algorithm::kTwoLevel) return algorithm;
  if (kind == CollectiveKind::kAllReduce) return Algorithm::kTwoShot;
  return kind == CollectiveKind::kBroadcast ? Algorithm::kBinomial : Algorithm::kDirect;
}

Work WorkOfAllReduce(Algorithm algorithm, double n, double segments) {
  const double span = (n - 1) / n;
  const double fold = FoldWays(n);
  const double rounds = Log2Up(n) - (fold > 0 ? 1 : 0);
  switch (algorithm) {
    case Algorithm::kOneShot: return Even(n, 1, n - 1, n - 1, n - 1);
    case Algorithm::kTwoShot: return Even(n, 2, 2 * (n - 1), 2 * span, span);
    case Algorithm::kRecursiveDoubling:
      return Even(n, rounds + fold, rounds + fold / 2, rounds + fold / 2, rounds + fold / 2);
    case Algorithm::kRabenseifner:
      return Even(n, 2 * rounds + fold, 2 * rounds + fold / 2, 2 * span + fold / 2, span + fold / 2);
    case Algorithm::kRing: return Even(n, 2 * (n - 1) + segments - 1, 2 * (n - 1) * segments, 2 * span, span);
    default: {
      const double up = Log2Up(n);
      return {2 * up, 2 * up, 2 * up, up, 2 * (n - 1), 2 * (n - 1), n - 1};
    }
  }
}

Work WorkOf(CollectiveKind kind, Algorithm algorithm, double n, double segments) {
  const double span = (n - 1) / n;
  const double up = Log2Up(n);
  switch (kind) {
    case CollectiveKind::kBarrier: return Even(n, up, up, 0, 0);
    case CollectiveKind::kAllReduce: return WorkOfAllReduce(algorithm, n, segments);
    case CollectiveKind::kReduceScatter:
      if (algorithm == Algorithm::kRing) return Even(n, n - 1, n - 1, span, span);
      if (algorithm == Algorithm::kHalving) {
        const double fold = FoldWays(n), rounds = up - (fold > 0 ? 1 : 0);
        return Even(n, rounds + fold, rounds + fold / 2, span + fold / 2, span + fold / 2);
      }
      return Even(n, 1, n - 1, span, span);
    case CollectiveKind::kAllGather:
      if (algorithm == Algorithm::kRing) return Even(n, n - 1, n - 1, span, 0);
      if (algorithm == Algorithm::kBruck) return Even(n, up, up, span, 0);
      return Even(n, 1, n - 1, span, 0);
    case CollectiveKind::kBroadcast:
      if (algorithm == Algorithm::kBinomial) return {up, up, up, 0, n - 1, n - 1, 0};
      if (algorithm == Algorithm::kChain) return {n - 2 + segments, segments, 1, 0, (n - 1) * segments, n - 1, 0};
      return {2, 2 * (n - 1), 2 * span, 0, (n - 1) + (n - 1) * (n - 1), n * span, 0};
    case CollectiveKind::kReduce:
      if (algorithm == Algorithm::kBinomial) return {up, up, up, up, n - 1, n - 1, n - 1};
      if (algorithm == Algorithm::kDirect) return {1, n - 1, n - 1, n - 1, n - 1, n - 1, n - 1};
      return {2, n - 1, 2 * span, span, n * n - 1, n * span + span, n * span};
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter: return {1, n - 1, span, 0, n - 1, span, 0};
    case CollectiveKind::kAllToAll:
      // A byte is copied before each send, and once at the end.
      if (algorithm == Algorithm::kBruck) return Even(n, up, up, up / 2, up / 2 + 1);
      if (algorithm == Algorithm::kPairwise) return Even(n, n - 1, n - 1, span, 0);
      return Even(n, 1, n - 1, span, 0);
  }
  return {};
}

// The share of a reduction's bytes that is in flight together with more than a cache holds, and is therefore fetched
// again in every round. A two-shot has all its blocks in flight at once, a ring one segment.
double ShareOfLarge(Algorithm algorithm, double n, double size, double segment_bytes) {
  switch (algorithm) {
    case Algorithm::kRing: return std::min(size / n, segment_bytes) > kCacheBytes ? 1 : 0;
    case Algorithm::kRabenseifner: {
      double large = 0;
      for (double span = 0.5; span * n >= 1 && span * size > kCacheBytes; span /= 2) large += span;
      return large / (1 - 1 / n);
    }
    case Algorithm::kHalving: return size / 2 > kCacheBytes ? 1 : 0;
    default: return size > kCacheBytes ? 1 : 0;
  }
}

// A schedule needs some hundred bytes and time to compile for each segment.
constexpr size_t kSegmentBytesMin = 1024;

std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') return words;
    line.remove_prefix(begin);
    const size_t length = std::min(line.find_first_of(" \t\r#"), line.size());
    words.push_back(line.substr(0, length));
    line.remove_prefix(length);
  }
}

// A word of the table, for an error.
std::string Shortened(std::string_view word) {
  constexpr size_t kWordBytesMax = 40;
  std::string text(word.substr(0, kWordBytesMax));
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < ' ') letter = '?';
  }
  return word.size() > kWordBytesMax ? text + "..." : text;
}

Status ParseRow(const std::vector<std::string_view>& words, TableRow* row) {
  if (words.size() != 5) return Status::Invalid("the row has " + std::to_string(words.size()) + " words, not 5");
  size_t kind = 0;
  while (kind < kKinds && KindName(static_cast<CollectiveKind>(kind)) != words[0]) ++kind;
  size_t algorithm = 0;
  while (algorithm < kAlgorithms && AlgorithmName(static_cast<Algorithm>(algorithm)) != words[3]) ++algorithm;
  size_t ranks = 0;
  if (kind == kKinds) return Status::Invalid("KIND: there is no collective " + Shortened(words[0]));
  row->kind = static_cast<CollectiveKind>(kind);
  row->algorithm = static_cast<Algorithm>(algorithm);
  if (!IsAlgorithmOf(row->kind, row->algorithm)) {
    return Status::Invalid("ALGORITHM: " + Shortened(words[0]) + " has no algorithm " + Shortened(words[3]));
  }
  if (!ParseNumber(words[1], &ranks) || ranks < 1 || ranks > kScheduleRanksMax) {
    return Status::Invalid("RANKS is " + Shortened(words[1]) + ", and must be 1 to " +
                           std::to_string(kScheduleRanksMax));
  }
  row->ranks = static_cast<int>(ranks);
  if (!ParseNumber(words[2], &row->bytes_max)) {
    return Status::Invalid("BYTES_MAX is " + Shortened(words[2]) + ", and must be a number of bytes");
  }
  if (!ParseNumber(words[4], &row->segment_bytes) || row->segment_bytes < kSegmentBytesMin) {
    return Status::Invalid("SEGMENT_BYTES is " + Shortened(words[4]) + ", and must be at least " +
                           std::to_string(kSegmentBytesMin));
  }
  return Status::Ok();
}

// Bruck's all-to-all needs one count, which all ranks know.
bool IsPossible(CollectiveKind kind, Algorithm algorithm, size_t bytes) {
  return kind != CollectiveKind::kAllToAll || algorithm != Algorithm::kBruck || bytes > 0;
}

// The distribution of ranks over hosts.
struct Levels {
  double ranks;
  double hosts = 0;  // 0: unknown
  double lanes = 1;  // ranks of the host that has the fewest
  double crowd = 1;  // ranks of the host that has the most

  Levels(const std::vector<int>& host_of, int all) : ranks(all) {
    std::map<int, int> counts;
    for (const int host : host_of) ++counts[host];
    if (counts.empty()) return;
    hosts = static_cast<double>(counts.size());
    lanes = all;
    for (const auto& [host, count] : counts) {
      lanes = std::min<double>(lanes, count);
      crowd = std::max<double>(crowd, count);
    }
  }
  // The cost for a flat schedule: the ranks of a host share its link to the other hosts.
  LinkCost OfAll(LinkCost cost) const {
    cost.byte_ns *= std::max(1.0, crowd * (ranks - crowd) / std::max(1.0, ranks - 1));
    return cost;
  }
};

Choice ChooseFlat(CollectiveKind kind, int ranks, size_t bytes, const LinkCost& cost, bool reproducible) {
  Choice best;
  bool chosen = false;
  for (const Algorithm algorithm : AlgorithmsOf(kind)) {
    if (algorithm == Algorithm::kTwoLevel || !IsPossible(kind, algorithm, bytes)) continue;
    if (reproducible && !IsReproducible(kind, algorithm)) continue;
    for (const size_t segment_bytes : {size_t{16} << 10, size_t{64} << 10, size_t{256} << 10, size_t{1} << 20}) {
      const double estimate = EstimateNs(kind, algorithm, ranks, bytes, cost, segment_bytes);
      if (chosen && estimate >= best.estimate_ns) continue;
      best.algorithm = algorithm;
      best.segment_bytes = segment_bytes;
      best.estimate_ns = estimate;
      chosen = true;
    }
  }
  return best;
}

Choice TwoLevels(CollectiveKind kind, const Levels& levels, size_t bytes, const LinkCost& cost, const LinkCost& near) {
  const auto hosts = static_cast<int>(std::max(1.0, levels.hosts));
  const auto neighbours = static_cast<int>(levels.crowd);
  auto nearby = [&](CollectiveKind what, Algorithm algorithm) {
    return EstimateNs(what, algorithm, neighbours, bytes, near, 1 << 20);
  };
  Choice choice;
  if (kind == CollectiveKind::kAllReduce) {
    // The lanes of a host share its link, each with its block.
    LinkCost shared = cost;
    shared.byte_ns *= levels.lanes;
    choice = ChooseFlat(kind, hosts, static_cast<size_t>(static_cast<double>(bytes) / levels.lanes), shared, false);
    choice.estimate_ns += nearby(CollectiveKind::kReduceScatter, Algorithm::kDirect) +
                          nearby(CollectiveKind::kAllGather, Algorithm::kDirect);
  } else if (kind == CollectiveKind::kAllGather) {
    choice.estimate_ns = EstimateNs(kind, Algorithm::kDirect, hosts, bytes, cost, 1 << 20) +
                         nearby(CollectiveKind::kAllGather, Algorithm::kDirect);
  } else {
    choice = ChooseFlat(kind, hosts, bytes, cost, false);
    choice.estimate_ns += nearby(kind, kind == CollectiveKind::kReduce ? Algorithm::kDirect : Algorithm::kBinomial);
  }
  choice.between = choice.algorithm;
  choice.algorithm = Algorithm::kTwoLevel;
  return choice;
}

}  // namespace

std::string AlgorithmName(Algorithm algorithm) {
  static constexpr const char* kNames[kAlgorithms] = {
      "one-shot", "two-shot", "recursive-doubling", "rabenseifner", "ring",          "binomial",  "direct",
      "bruck",    "chain",    "scatter-gather",     "pairwise",     "dissemination", "two-level", "halving"};
  const auto number = static_cast<uint8_t>(algorithm);
  return number < kAlgorithms ? kNames[number] : "algorithm " + std::to_string(number);
}

std::vector<Algorithm> AlgorithmsOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kBarrier: return {Algorithm::kDissemination};
    case CollectiveKind::kAllReduce:
      return {Algorithm::kOneShot, Algorithm::kTwoShot,  Algorithm::kRecursiveDoubling, Algorithm::kRabenseifner,
              Algorithm::kRing,    Algorithm::kBinomial, Algorithm::kTwoLevel};
    case CollectiveKind::kReduceScatter: return {Algorithm::kDirect, Algorithm::kRing, Algorithm::kHalving};
    case CollectiveKind::kAllGather:
      return {Algorithm::kDirect, Algorithm::kRing, Algorithm::kBruck, Algorithm::kTwoLevel};
    case CollectiveKind::kBroadcast:
      return {Algorithm::kBinomial, Algorithm::kScatterGather, Algorithm::kChain, Algorithm::kTwoLevel};
    case CollectiveKind::kReduce:
      return {Algorithm::kBinomial, Algorithm::kDirect, Algorithm::kScatterGather, Algorithm::kTwoLevel};
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter: return {Algorithm::kDirect};
    case CollectiveKind::kAllToAll: return {Algorithm::kDirect, Algorithm::kPairwise, Algorithm::kBruck};
  }
  return {};
}

bool IsAlgorithmOf(CollectiveKind kind, Algorithm algorithm) {
  const std::vector<Algorithm> all = AlgorithmsOf(kind);
  return std::find(all.begin(), all.end(), algorithm) != all.end();
}

bool IsReproducible(CollectiveKind kind, Algorithm algorithm) {
  switch (kind) {
    case CollectiveKind::kAllReduce: return algorithm == Algorithm::kOneShot || algorithm == Algorithm::kTwoShot;
    case CollectiveKind::kReduceScatter: return algorithm == Algorithm::kDirect;
    case CollectiveKind::kReduce: return algorithm == Algorithm::kDirect || algorithm == Algorithm::kScatterGather;
    default: return true;
  }
}

bool Places::one_host() const {
  return !hosts.empty() &&
         std::count(hosts.begin(), hosts.end(), hosts[0]) == static_cast<std::ptrdiff_t>(hosts.size());
}

double EstimateNs(CollectiveKind kind, Algorithm algorithm, int ranks, size_t bytes, const LinkCost& cost,
                  size_t segment_bytes) {
  if (ranks < 2) return 0;
  const double n = ranks;
  const auto size = static_cast<double>(bytes);
  // A ring cuts each block into segments, a chain the whole array.
  const double cut = static_cast<double>(segment_bytes) * (algorithm == Algorithm::kRing ? n : 1);
  const double segments = std::max(1.0, size / cut);
  const Work work = WorkOf(kind, FlatOf(kind, algorithm), n, segments);
  const double alone = work.ways * cost.way_ns + std::max(0.0, work.messages - work.ways) * cost.message_ns +
                       work.sent * size * cost.byte_ns + work.reduced * size * cost.reduced_byte_ns;
  if (cost.cpus == 0 || cost.cpus >= ranks) return alone;
  const double large = kind == CollectiveKind::kAllReduce || algorithm == Algorithm::kHalving
                           ? ShareOfLarge(FlatOf(kind, algorithm), n, size, static_cast<double>(segment_bytes))
                           : 0;
  // Half of a message's latency is work of a processor, at one of the two ends.
  const double together = work.all_messages * std::max(cost.message_ns, cost.way_ns / 2) +
                          work.all_sent * size * cost.byte_ns * (1 + large * kUncachedShare) +
                          work.all_reduced * size * cost.reduced_byte_ns;
  return std::max(alone, together / cost.cpus);
}

Result<std::vector<TableRow>> ParseTable(const std::string& text) {
  std::vector<TableRow> rows;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string_view> words = WordsOf(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (words.empty()) continue;
    TableRow row;
    Status status = ParseRow(words, &row);
    for (const TableRow& other : rows) {
      if (!status.ok() || other.kind != row.kind || other.ranks != row.ranks) continue;
      if (other.bytes_max >= row.bytes_max) {
        status = Status::Invalid("BYTES_MAX is not above that of the rows before with the same KIND and RANKS");
      }
    }
    if (rows.size() == kTableRowsMax) {
      status = Status::Invalid("there are more than " + std::to_string(kTableRowsMax) + " rows");
    }
    if (!status.ok()) {
      return Status::Invalid("line " + std::to_string(number) + ": " + status.cause())
          .Phase("reading a table of algorithms")
          .Next("write KIND RANKS BYTES_MAX ALGORITHM SEGMENT_BYTES, or measure the table anew");
    }
    rows.push_back(row);
  }
  return rows;
}

std::string WriteTable(const std::vector<TableRow>& rows) {
  std::string text = "# KIND RANKS BYTES_MAX ALGORITHM SEGMENT_BYTES\n";
  for (const TableRow& row : rows) {
    text += KindName(row.kind) + " " + std::to_string(row.ranks) + " " + std::to_string(row.bytes_max) + " " +
            AlgorithmName(row.algorithm) + " " + std::to_string(row.segment_bytes) + "\n";
  }
  return text;
}

Choice Choose(CollectiveKind kind, int ranks, size_t bytes, const LinkCost& cost, const std::vector<TableRow>& table,
              bool reproducible, const Places& places) {
  const Levels levels(places.hosts, ranks);
  Choice best;
  for (const TableRow& row : table) {
    if (row.kind != kind || row.ranks != ranks || bytes > row.bytes_max) continue;
    if (!IsPossible(kind, row.algorithm, bytes)) continue;
    if (reproducible && !IsReproducible(kind, row.algorithm)) break;
    best.algorithm = row.algorithm;
    best.segment_bytes = row.segment_bytes;
    if (row.algorithm == Algorithm::kTwoLevel) best.between = TwoLevels(kind, levels, bytes, cost, places.near).between;
    return best;
  }
  if (levels.hosts <= 1) return ChooseFlat(kind, ranks, bytes, levels.hosts == 1 ? places.near : cost, reproducible);
  best = ChooseFlat(kind, ranks, bytes, levels.OfAll(cost), reproducible);
  const bool has_two = IsAlgorithmOf(kind, Algorithm::kTwoLevel) && levels.hosts < levels.ranks &&
                       !(reproducible && !IsReproducible(kind, Algorithm::kTwoLevel));
  if (!has_two) return best;
  const Choice two = TwoLevels(kind, levels, bytes, cost, places.near);
  return two.estimate_ns < best.estimate_ns ? two : best;
}

}  // namespace fusewire::collective
