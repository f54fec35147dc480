// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer UCC, over its TL ucp: --wire shm or tcp chooses UCX's transports. Every collective of two arrays is a
// persistent request, which is posted again and again. The ranks find each other in memory that they share.
#include <sched.h>
#include <sys/mman.h>
#include <ucc/api/ucc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "bench/collective/loop.h"
#include "bench/collective/ranks.h"
#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

void Must(ucc_status_t status, const char* what) {
  if (status < 0) Die(std::string("UCC: ") + what + ": " + ucc_status_string(status));
}

// The all-gathers over which UCC connects. Each one has room of its own, so no rank waits before it writes.
class Meetings {
 public:
  static constexpr size_t kRoom = 64 * 1024;
  static constexpr size_t kMost = 64;

  // Created before the ranks.
  static Meetings* Make() {
    void* memory =
        mmap(nullptr, sizeof(Meetings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) DieOfErrno("mmap of the meetings");
    return ::new (memory) Meetings;
  }
  void Show(size_t meeting, int rank, const void* bytes, size_t size) {
    if (meeting >= kMost || size > kRoom) Die("UCC wants more meetings, or longer ones");
    std::memcpy(rooms_[meeting][rank], bytes, size);
    shown_[meeting].fetch_add(1);
  }
  bool Complete(size_t meeting, int ranks) const { return shown_[meeting].load() == ranks; }
  const void* ShownBy(size_t meeting, int rank) const { return rooms_[meeting][rank]; }

 private:
  std::atomic<int> shown_[kMost];
  uint8_t rooms_[kMost][kRanksMax][kRoom];
};

class UccGroup final : public Group {
 public:
  UccGroup(int rank, int ranks, Meetings* meetings) : rank_(rank), ranks_(ranks), meetings_(meetings) {
    // A rank that polls would keep the others from their processor.
    yields_ = !BindRank(rank, ranks);
    ucc_lib_config_h lib_config;
    Must(ucc_lib_config_read(nullptr, nullptr, &lib_config), "its settings");
    ucc_lib_params_t lib_params{};
    lib_params.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE;
    lib_params.thread_mode = UCC_THREAD_SINGLE;
    ucc_lib_h lib;
    Must(ucc_init(&lib_params, lib_config, &lib), "init");
    ucc_context_config_h context_config;
    Must(ucc_context_config_read(lib, nullptr, &context_config), "a context's settings");
    ucc_context_params_t context_params{};
    context_params.mask = UCC_CONTEXT_PARAM_FIELD_OOB;
    FillIn(&context_params.oob);
    Must(ucc_context_create(lib, &context_params, context_config, &context_), "a context");
    ucc_team_params_t team_params{};
    team_params.mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE;
    FillIn(&team_params.oob);
    team_params.ep = static_cast<uint64_t>(rank);
    team_params.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    Must(ucc_team_create_post(&context_, 1, &team_params, &team_), "a team");
    ucc_status_t status;
    while ((status = ucc_team_create_test(team_)) == UCC_INPROGRESS) Progress();
    Must(status, "a team");
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void Barrier() override {
    ucc_coll_args_t args{};
    args.coll_type = UCC_COLL_TYPE_BARRIER;
    RunOnce(&args);
  }
  void Run(const Call& call) override {
    if (plan_ == nullptr || call != call_) Plan(call);
    Await(plan_);
  }
  void Broadcast(uint64_t* number) override {
    ucc_coll_args_t args{};
    args.coll_type = UCC_COLL_TYPE_BCAST;
    args.src.info = {number, 1, UCC_DT_UINT64, UCC_MEMORY_TYPE_HOST};
    RunOnce(&args);
  }

 private:
  template <class Oob>
  void FillIn(Oob* oob) {
    oob->allgather = [](void* mine, void* all, size_t size, void* group, void** request) {
      auto* me = static_cast<UccGroup*>(group);
      me->meetings_->Show(me->meeting_, me->rank_, mine, size);
      *request = new Gathering{me, me->meeting_++, all, size};
      return UCC_OK;
    };
    oob->req_test = [](void* request) {
      const auto* gathering = static_cast<Gathering*>(request);
      const UccGroup* me = gathering->group;
      if (!me->meetings_->Complete(gathering->meeting, me->ranks_)) return UCC_INPROGRESS;
      for (int rank = 0; rank < me->ranks_; ++rank) {
        std::memcpy(static_cast<uint8_t*>(gathering->all) + static_cast<size_t>(rank) * gathering->size,
                    me->meetings_->ShownBy(gathering->meeting, rank), gathering->size);
      }
      return UCC_OK;
    };
    oob->req_free = [](void* request) {
      delete static_cast<Gathering*>(request);
      return UCC_OK;
    };
    oob->coll_info = this;
    oob->n_oob_eps = static_cast<uint32_t>(ranks_);
    oob->oob_ep = static_cast<uint32_t>(rank_);
  }

  void Plan(const Call& call) {
    if (plan_ != nullptr) ucc_collective_finalize(plan_);
    const size_t part = call.count / static_cast<size_t>(ranks_);
    ucc_coll_args_t args{};
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
    args.op = UCC_OP_SUM;
    size_t input = call.count, output = call.count;
    switch (call.what) {
      case Collective::kAllReduce: args.coll_type = UCC_COLL_TYPE_ALLREDUCE; break;
      case Collective::kAllGather:
        args.coll_type = UCC_COLL_TYPE_ALLGATHER;
        input = part;
        break;
      case Collective::kReduceScatter:
        args.coll_type = UCC_COLL_TYPE_REDUCE_SCATTER;
        output = part;
        break;
      case Collective::kAllToAll: args.coll_type = UCC_COLL_TYPE_ALLTOALL; break;
    }
    args.src.info = {const_cast<float*>(call.from), input, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
    args.dst.info = {call.to, output, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
    Must(ucc_collective_init(&args, &plan_, team_), "a collective");
    call_ = call;
  }

  void RunOnce(ucc_coll_args_t* args) {
    ucc_coll_req_h request;
    Must(ucc_collective_init(args, &request, team_), "a collective");
    Await(request);
    ucc_collective_finalize(request);
  }

  void Await(ucc_coll_req_h request) {
    Must(ucc_collective_post(request), "a collective");
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) Progress();
    Must(status, "a collective");
  }

  void Progress() {
    Must(ucc_context_progress(context_), "progress");
    if (yields_) sched_yield();
  }

  struct Gathering {
    const UccGroup* group;
    size_t meeting;
    void* all;
    size_t size;
  };

  const int rank_;
  const int ranks_;
  Meetings* const meetings_;
  size_t meeting_ = 0;
  bool yields_ = false;
  ucc_context_h context_ = nullptr;
  ucc_team_h team_ = nullptr;
  Call call_;
  ucc_coll_req_h plan_ = nullptr;
};

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  namespace bench = fusewire::bench;
  if (bench::PrintedVersion(argc, argv, std::string("UCC ") + ucc_get_version_string())) return 0;
  const bench::LoopOptions options = bench::ParseLoopOptions(argc, argv);
  bench::Meetings* const meetings = bench::Meetings::Make();
  bench::Board* const board = bench::Board::Make();
  return bench::ForkRanks(options.ranks, [&](int rank) {
    bench::UccGroup group(rank, options.ranks, meetings);
    bench::MeasureCollectives(group, options, "ucc");
    board->Leave(options.ranks);
  });
}
