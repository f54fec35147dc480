// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/moving.h"

#include <algorithm>
#include <map>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/env.h>

#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/server/drain.h"
#include "fusewire/tf/server/orders.h"

namespace fusewire::tf {
namespace {

constexpr int64_t kPieceNs = 10 * kSecondNs;  // for one piece of a round
constexpr int64_t kCountNs = 2 * kSecondNs;   // to say how many tasks it has
constexpr int64_t kTakeNs = 600 * kSecondNs;  // to take one: its state is copied meanwhile
constexpr size_t kTakersMax = 4096;           // of one process's siblings

// Asks, and waits. The answer's content follows its status.
TfStatus AskOver(const ChannelPtr& channel, uint16_t method, const std::string& request, int64_t timeout_ns,
                 rpc::Client::Answer* answer, VarReader* content) {
  GlobalCounters().Add(&Counters::calls_out);
  *answer = channel->client().Ask(method, ConstBytes(request), Buffers(), timeout_ns);
  channel->ReportStatus(answer->status);
  if (!answer->status.ok()) return ToTf(answer->status);
  *content = VarReader{ConstBytes(answer->head)};
  TfStatus status;
  TF_RETURN_IF_ERROR(ReadTfStatus(content, &status));
  return status;
}

class RemotePredecessor final : public Predecessor {
 public:
  RemotePredecessor(ChannelPtr channel, uint64_t taker) : channel_(std::move(channel)), taker_(taker) {}

  TfStatus Ask(MoveWant want, HandedOver* answer, std::vector<std::string>* pieces) override {
    rpc::Client::Answer got;
    VarReader content{ConstBytes()};
    TF_RETURN_IF_ERROR(AskOver(channel_, kHandOver, EncodeHandOver({taker_, want}), kPieceNs, &got, &content));
    const Status read = DecodeHandedOver(&content, answer);
    if (!read.ok()) return absl::DataLossError(read.cause());
    pieces->clear();
    for (const Buffer& piece : got.body) pieces->push_back(ConstBytes(piece.bytes()).ToString());
    return TfStatus();
  }

 private:
  const ChannelPtr channel_;
  const uint64_t taker_;
};

// The text lives until the network is done with it.
Buffer BufferOf(std::string text) {
  auto* kept = new std::string(std::move(text));
  return Buffer::WrapReadOnly(ConstBytes(*kept), kept,
                              [](void* owner, Bytes) { delete static_cast<std::string*>(owner); });
}

}  // namespace

std::unique_ptr<Predecessor> ReachPredecessor(task::Task& own, const Owner& owner, uint64_t taker) {
  Channel::Options options;
  Result<transport::Address> address = transport::Address::Parse(owner.address);
  if (address.ok()) options.address = address.value();
  options.incarnation = owner.holder;
  options.target = owner.task;
  return std::make_unique<RemotePredecessor>(Channel::Make(own, std::move(options)), taker);
}

rpc::Method HandOverMethod(Departures* departures) {
  return {kHandOver, "HandOver",
          [departures](const rpc::Request& request, rpc::Reply reply) {
            GlobalCounters().Add(&Counters::calls_in);
            HandOver asked;
            Status read = DecodeHandOver(request.head, &asked);
            if (!read.ok()) return reply.Send(std::move(read));
            // shared_ptr: std::function wants copies.
            auto kept = std::make_shared<rpc::Reply>(std::move(reply));
            departures->OnHandOver(
                asked, [kept](const TfStatus& status, const HandedOver& said, std::vector<std::string> pieces) {
                  std::string head;
                  Buffers body;
                  AppendTfStatus(status, &head);
                  if (status.ok()) AppendHandedOver(said, &head);
                  for (std::string& piece : pieces) body.push_back(BufferOf(std::move(piece)));
                  kept->Send(Status::Ok(), head, std::move(body));
                });
          },
          nullptr};
}

rpc::Method TakeTaskMethod(const tensorflow::ServerDef& def, TakeHere take, std::function<size_t()> tasks) {
  auto obey = [def, take = std::move(take), tasks = std::move(tasks)](const TakeTask& asked, TakenTask* answer) {
    if (!asked.task.empty()) {
      Result<std::vector<int>> index = ReadTasks(asked.task, def, "the task");
      if (!index.ok() || index.value().size() != 1)
        return TfStatus(absl::InvalidArgumentError(absl::StrCat("it can't take ", asked.task)));
      const int64_t pause_ms = static_cast<int64_t>(std::max<uint64_t>(asked.pause_ms_max, 1));
      TF_RETURN_IF_ERROR(take(index.value()[0], pause_ms, &answer->said));
    }
    answer->process = ProcessId();
    answer->tasks = tasks();
    return TfStatus();
  };
  return {kTakeTask, "TakeTask",
          [obey](const rpc::Request& request, rpc::Reply reply) {
            GlobalCounters().Add(&Counters::calls_in);
            TakeTask asked;
            Status read = DecodeTakeTask(request.head, &asked);
            if (!read.ok()) return reply.Send(std::move(read));
            auto kept = std::make_shared<rpc::Reply>(std::move(reply));  // as above
            tensorflow::Env::Default()->SchedClosure([obey, asked, kept] {
              TakenTask answer;
              const TfStatus status = obey(asked, &answer);
              std::string head;
              AppendTfStatus(status, &head);
              if (status.ok()) AppendTakenTask(answer, &head);
              kept->Send(Status::Ok(), head);
            });
          },
          nullptr};
}

ChannelPtr AwaitRoute(const Ways& ways, int64_t limit_ns, bool* is_grpc_only) {
  // shared_ptr: the answer may come after the wait for it.
  struct Answer {
    Mutex mutex;
    CondVar come;
    bool has_come FUSEWIRE_GUARDED_BY(mutex) = false;
    TfStatus status FUSEWIRE_GUARDED_BY(mutex);
    ChannelPtr channel FUSEWIRE_GUARDED_BY(mutex);
  };
  auto answer = std::make_shared<Answer>();
  ways.peer->Route(ways.side, [answer](const TfStatus& status, const ChannelPtr& channel) {
    MutexLock lock(answer->mutex);
    answer->has_come = true;
    answer->status = status;
    answer->channel = channel;
    answer->come.NotifyAll();
  });
  MutexLock lock(answer->mutex);
  const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), limit_ns);
  while (!answer->has_come && answer->come.WaitUntil(answer->mutex, deadline_ns)) {
  }
  *is_grpc_only = answer->has_come && answer->status.ok() && answer->channel == nullptr;
  return answer->channel;
}

TfStatus GiveAway(const std::string& task, uint64_t pause_ms_max, const std::vector<Ways>& siblings,
                  std::string* said) {
  struct Taker {
    uint64_t tasks = 0;
    ChannelPtr channel;
  };
  std::map<uint64_t, Taker> takers;  // by process
  std::string unheard;
  for (size_t i = 0; i < std::min(siblings.size(), kTakersMax); ++i) {
    bool is_grpc_only = false;
    const ChannelPtr channel = AwaitRoute(siblings[i], kCountNs, &is_grpc_only);
    if (channel == nullptr || channel->options().epoch == 0) continue;
    rpc::Client::Answer answer;
    VarReader content{ConstBytes()};
    TakenTask taken;
    const TfStatus asked = AskOver(channel, kTakeTask, EncodeTakeTask({}), kCountNs, &answer, &content);
    if (!asked.ok()) absl::StrAppend(&unheard, "; ", asked.message());
    if (!asked.ok() || !DecodeTakenTask(&content, &taken).ok() || taken.process == ProcessId()) continue;
    takers[taken.process] = {taken.tasks, channel};
  }
  while (!takers.empty()) {
    auto least = takers.begin();
    for (auto taker = takers.begin(); taker != takers.end(); ++taker) {
      if (taker->second.tasks < least->second.tasks) least = taker;
    }
    rpc::Client::Answer answer;
    VarReader content{ConstBytes()};
    TakenTask taken;
    const TfStatus asked =
        AskOver(least->second.channel, kTakeTask, EncodeTakeTask({task, pause_ms_max}), kTakeNs, &answer, &content);
    if (asked.ok() && DecodeTakenTask(&content, &taken).ok()) {
      *said = taken.said;
      return TfStatus();
    }
    absl::StrAppend(&unheard, "; ", asked.message());
    takers.erase(least);
  }
  return absl::UnavailableError(absl::StrCat("no other process takes ", task, unheard));
}

}  // namespace fusewire::tf
