// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/whereabouts.h"

#include <algorithm>

#include <tensorflow/core/platform/env.h>
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {
namespace {

constexpr int64_t kExchangeNs = 10 * kSecondNs;
constexpr int64_t kFirstLookUs = 2 * 1000;

class ExchangeCall final : public rpc::Call {
 public:
  ExchangeCall(ChannelPtr channel, WhereaboutsPtr known, std::function<void()> done)
      : Call(kWhereabouts), channel_(std::move(channel)), known_(std::move(known)), done_(std::move(done)) {
    text_ = EncodeWhereabouts(known_->All());
    head = text_;
    timeout_ns = kExchangeNs;
  }
  void Go() {
    GlobalCounters().Add(&Counters::calls_out);
    channel_->BeginCall(kWhereabouts, "where tasks are", &event_);
    channel_->client().Start(this);
  }

 private:
  void OnDone(Status status) override {
    event_.End(status.ok());
    channel_->ReportStatus(status);
    std::vector<Whereabout> said;
    if (status.ok() && DecodeWhereabouts(ConstBytes(reply_head), &said).ok()) {
      for (const Whereabout& one : said) known_->Learn(one);
    }
    const auto done = std::move(done_);
    delete this;
    done();
  }

  const ChannelPtr channel_;
  const WhereaboutsPtr known_;
  std::function<void()> done_;
  std::string text_;
  observe::Event event_;
};

}  // namespace

bool Whereabouts::Learn(const Whereabout& said) {
  if (said.epoch == 0) return false;
  MutexLock lock(mutex_);
  if (known_.size() >= kWhereaboutsMax && known_.count(said.task) == 0) return false;
  Whereabout& known = known_[said.task];
  if (said.epoch <= known.epoch) return false;
  known = said;
  return true;
}

bool Whereabouts::Find(const std::string& task, Whereabout* found) const {
  MutexLock lock(mutex_);
  auto known = known_.find(task);
  if (known == known_.end()) return false;
  *found = known->second;
  return true;
}

std::vector<Whereabout> Whereabouts::All() const {
  MutexLock lock(mutex_);
  std::vector<Whereabout> all;
  for (const auto& [task, known] : known_) all.push_back(known);
  return all;
}

void Exchange(ChannelPtr channel, WhereaboutsPtr known, std::function<void()> done) {
  (new ExchangeCall(std::move(channel), std::move(known), std::move(done)))->Go();
}

bool HasTask(task::Task& task, const Whereabout& said, int64_t limit_ns, Whereabouts& known) {
  Channel::Options options;
  Result<transport::Address> address = transport::Address::Parse(said.address);
  if (!address.ok()) return false;
  options.address = address.value();
  options.incarnation = said.incarnation;
  options.target = said.task;
  options.patience_ns = 0;
  // Nobody else holds it, so it ends here: the caller may destroy the task next.
  const ChannelPtr channel = Channel::Make(task, std::move(options));
  GlobalCounters().Add(&Counters::calls_out);
  const rpc::Client::Answer answer =
      channel->client().Ask(kWhereabouts, ConstBytes(EncodeWhereabouts({})), Buffers(), limit_ns);
  std::vector<Whereabout> places;
  if (!answer.status.ok() || !DecodeWhereabouts(ConstBytes(answer.head), &places).ok()) return false;
  Whereabouts told;
  for (const Whereabout& one : places) told.Learn(one);
  Whereabout found;
  if (!told.Find(said.task, &found) || found.incarnation != said.incarnation) return false;
  known.Learn(found);
  return true;
}

rpc::Method ExchangeMethod(WhereaboutsPtr known) {
  return {kWhereabouts, "where tasks are",
          [known = std::move(known)](const rpc::Request& request, rpc::Reply reply) {
            GlobalCounters().Add(&Counters::calls_in);
            std::vector<Whereabout> said;
            Status read = DecodeWhereabouts(request.head, &said);
            if (!read.ok()) return reply.Send(std::move(read));
            for (const Whereabout& one : said) known->Learn(one);
            const std::string answer = EncodeWhereabouts(known->All());
            reply.Send(Status::Ok(), ConstBytes(answer));
          },
          nullptr};
}

bool Scout::HasFound() {
  Whereabout found;
  if (!options_.known->Find(options_.task, &found) || found.epoch <= options_.after_epoch) return false;
  // Off the reactor: the callers that wait for it may send over gRPC.
  if (Stop()) tensorflow::Env::Default()->SchedClosure([self = shared_from_this()] { self->options_.found(); });
  return true;
}

void Scout::Look() {
  if (is_over_ || HasFound()) return;
  ChannelPtr other = options_.other(turn_++);
  if (other != nullptr)
    Exchange(std::move(other), options_.known, [weak = weak_from_this()] {
      if (auto self = weak.lock()) (void)self->HasFound();
    });
  // As long as somebody waits for it; soon at first, since a task that has moved is known at once.
  const uint64_t turn = turn_.load();
  const int64_t pause_us = std::min(options_.every_us, kFirstLookUs << std::min<uint64_t>(turn, 16));
  tensorflow::Env::Default()->SchedClosureAfter(pause_us, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Look();
  });
}

}  // namespace fusewire::tf
