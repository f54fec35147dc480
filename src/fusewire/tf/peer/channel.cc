// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/channel.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/env.h>
#include "fusewire/base/check.h"
#include "fusewire/base/random.h"
#include "fusewire/reactor/process_limits.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/profile/profiler.h"

namespace fusewire::tf {

using tensorflow::Tensor;

namespace {

constexpr int64_t kCleanupDelayNs = 20 * kMillisecondNs;
constexpr int kAskAgainMax = 3;
constexpr int kPeersTold = 64;
// A request is sent when no receive has come for kQuietNs, at the latest kGatherNsMax after its first receive.
constexpr int64_t kQuietNs = 1500;
constexpr int64_t kGatherNsMax = 50 * kMicrosecondNs;
static_assert(kQuietNs < kGatherNsMax);
constexpr int kLooksMax = 100'000;  // a test's clock stands still meanwhile

// A one-way call: its answer is ignored.
class OneWayCall final : public rpc::Call {
 public:
  OneWayCall(ChannelPtr channel, uint16_t number, std::string text)
      : Call(number), channel_(std::move(channel)), text_(std::move(text)) {
    head = text_;
    timeout_ns = 10 * kSecondNs;
  }

 private:
  void OnDone(Status) override { delete this; }
  const ChannelPtr channel_;
  const std::string text_;
};

void SendOneWay(ChannelPtr channel, uint16_t number, std::string text) {
  GlobalCounters().Add(&Counters::calls_out);
  Channel& on = *channel;
  on.client().Start(new OneWayCall(std::move(channel), number, std::move(text)));
}

std::string WireWords(absl::string_view wire) {
  if (wire == "shm") return "shared memory";
  if (wire == "tcp") return "TCP";
  if (wire == "tls") return "TLS";
  return std::string(wire);
}

// One line for each peer, so that an operator sees that it works; but not a thousand lines where a server has a
// thousand workers.
void TellOfConnection(const std::string& target, const std::string& protocol, const char* wire) {
  static std::atomic<int> told{0};
  const int number = told.fetch_add(1, std::memory_order_relaxed);
  if (number < kPeersTold)
    LOG(INFO) << "fusewire: " << ShortTask(target) << ": " << protocol << " over " << WireWords(wire);
  if (number == kPeersTold) LOG(INFO) << "fusewire: further connections are not listed; fusewire top shows all";
}

}  // namespace

// ---- one request ----

class ReceiveCall final : public rpc::Call {
 public:
  ReceiveCall(ChannelPtr channel, std::vector<Recv*> recvs)
      : Call(kReceive), channel_(std::move(channel)), recvs_(std::move(recvs)), unanswered_(recvs_.size()) {
    FUSEWIRE_DCHECK(channel_ != nullptr);
    FUSEWIRE_DCHECK(!recvs_.empty());
    FUSEWIRE_DCHECK(recvs_.size() <= kWantsMax);
  }

  void Ask() {
    FUSEWIRE_AT_HOME(channel_->home_);
    TraceMe trace([this] { return Traced("fusewire ask", recvs_.size()); }, kTraceLevel);
    channel_->names_.Begin(recvs_.size(), &text_);
    const int64_t now_ns = observe::EventNowNs();
    for (Recv* recv : recvs_) {
      FUSEWIRE_DCHECK(recv->asked_);
      FUSEWIRE_DCHECK(recv->channel() == channel_);
      const Mark& mark = channel_->names_.Append(recv->key(), recv->step(), &text_);
      if (!recv->event_.has_begun())
        recv->event_.Begin(observe::Kind::kReceive, mark.tag, recv->step(), FlowOf(mark, recv->step()), now_ns);
    }
    said_ = channel_->names_.said();
    head = text_;
    GlobalCounters().Add(&Counters::calls_out);
    GlobalCounters().Add(&Counters::recv_batches);
    channel_->client_.Start(this);
  }

 private:
  struct Answer {
    Recv* recv;
    AnswerKind kind;
    TfStatus error;
  };

  std::string Traced(const char* name, size_t tensors) const {
    return TraceMeEncode(name, {{"peer", ShortTask(channel_->target())}, {"tensors", tensors}});
  }

  Result<pipe::Landing> Land(ConstBytes head_in, const rpc::SegmentSizes& sizes) override {
    return LandPart(head_in, sizes);
  }

  Result<pipe::Landing> LandPart(ConstBytes head_in, const rpc::SegmentSizes& sizes) override {
    TraceMe trace([&] { return Traced("fusewire land", sizes.count()); }, kTraceLevel);
    FUSEWIRE_TRY(Read(head_in, &sizes));
    return pipe::Landing::Into(places_.data(), places_.size());
  }

  void OnPart(ConstBytes head_in, Buffers) override {
    FUSEWIRE_AT_HOME(channel_->home_);
    channel_->names_.Known(said_);
    if (!read_) bad_ = Read(head_in, nullptr);
    if (bad_.ok()) EndAnswered();
  }

  // Reads all answers of one message, and allocates memory for its segments.
  Status Read(ConstBytes head_in, const rpc::SegmentSizes* sizes) {
    FUSEWIRE_AT_HOME(channel_->home_);
    read_ = true;
    places_.clear();
    answers_.clear();
    VarReader reader(head_in);
    const int64_t now_ns = observe::EventNowNs();
    size_t segment = 0;
    while (!reader.done()) {
      AnswerHead said;
      FUSEWIRE_TRY(DecodeAnswerHead(&reader, recvs_.size(), &said));
      const uint64_t index = said.index;
      const AnswerKind kind = said.kind;
      if (recvs_[index] == nullptr) return Status::Corrupt("an answer to a tensor that was not requested");
      Answer answer{recvs_[index], kind, TfStatus()};
      if (kind == kError) {
        TfStatus read = ReadTfStatus(&reader, &answer.error);
        if (!read.ok()) return Status::Corrupt(std::string(read.message()));
      }
      if (kind == kValue) {
        answer.recv->OnArrival();
        answer.recv->event_.Arrive(now_ns);
        TensorLanding& landing = answer.recv->landing_;
        // The step of an aborted receive has ended; its session, and with it the device, may be gone.
        const TensorPlace place = answer.recv->ended_ ? TensorPlace() : answer.recv->place_;
        answer.error = landing.Begin(&reader, place, [sizes, segment] {
          return sizes != nullptr && segment < sizes->count() ? sizes->at(segment) : UINT64_MAX;
        });
        if (!answer.error.ok()) {
          // The next answer can't be found without reading this one.
          return NotBegun(answer.error);
        }
        if (landing.has_segment()) {
          places_.push_back(landing.place());
          ++segment;
        }
      }
      recvs_[index] = nullptr;
      answers_.push_back(std::move(answer));
    }
    if (segment != (sizes != nullptr ? sizes->count() : 0))
      return Status::Corrupt("a segment that belongs to no answer");
    return Status::Ok();
  }

  void EndAnswered() {
    read_ = false;
    std::vector<Answer> answers = std::move(answers_);
    answers_.clear();
    TraceMe trace([&] { return Traced("fusewire part in", answers.size()); }, kTraceLevel);
    FUSEWIRE_CHECK(answers.size() <= unanswered_);
    unanswered_ -= answers.size();
    for (Answer& answer : answers) {
      Recv* recv = answer.recv;
      if (recv->ended_) {
        recv->Unref();
        continue;
      }
      recv->ended_ = true;
      if (answer.kind != kValue) {
        channel_->End(recv, answer.kind == kDead ? TfStatus() : answer.error, Tensor(), answer.kind == kDead);
        continue;
      }
      GlobalCounters().Add(&Counters::tensor_bytes, recv->landing_.place().size);
      ChannelPtr channel = channel_;
      recv->landing_.Finish(recv->place_, [channel, recv](const TfStatus& status, const Tensor& tensor) {
        channel->End(recv, status, tensor, false);
      });
    }
  }

  void OnDone(Status status) override {
    ChannelPtr channel = channel_;
    FUSEWIRE_AT_HOME(channel->home_);
    if (status.ok()) {
      channel->names_.Known(said_);
      if (!read_ && !reply_head.empty()) bad_ = Read(reply_head, nullptr);
      if (bad_.ok()) EndAnswered();
      status = bad_;
      if (status.ok() && unanswered_ > 0) status = Status::Corrupt("the peer left tensors without an answer");
    }
    bool ask_again = status.code() == Code::kApplication && status.app_code() == kUnknownKeys;
    if (ask_again) channel->names_.Forget();
    channel->ReportStatus(status);
    TfStatus error = WithTarget(ToTf(status), channel->target(), "RecvTensor");
    // Answers whose body did not arrive were taken out of recvs_ when their message's head was read.
    for (Answer& answer : answers_) recvs_.push_back(answer.recv);
    std::vector<Recv*> again;
    for (Recv* recv : recvs_) {
      if (recv == nullptr) continue;
      if (recv->ended_) {
        recv->Unref();
      } else if (ask_again && ++recv->asked_again_ <= kAskAgainMax) {
        again.push_back(recv);
      } else {
        recv->ended_ = true;
        channel->End(recv, error, Tensor(), false);
      }
    }
    delete this;
    if (!again.empty()) channel->Ask(std::move(again));
  }

  const ChannelPtr channel_;
  std::vector<Recv*> recvs_;  // by the index in the request; null once answered
  size_t unanswered_;
  std::string text_;
  uint64_t said_ = 0;
  std::vector<Answer> answers_;  // of the message that is coming in
  std::vector<Bytes> places_;
  bool read_ = false;
  Status bad_;
};

// ---- one receive ----

Recv::Recv(ChannelPtr channel, int64_t step, std::string key, TensorPlace place)
    : channel_(std::move(channel)), step_(step), key_(std::move(key)), place_(place) {
  FUSEWIRE_DCHECK(channel_ != nullptr);
}

void Recv::Unref() {
  const int refs = refs_.fetch_sub(1, std::memory_order_acq_rel);
  FUSEWIRE_CHECK(refs > 0);
  if (refs == 1) delete this;
}

void Recv::Go() {
  if (RecvGroup::current != nullptr) {
    RecvGroup::current->recvs_.push_back(this);
  } else {
    channel_->Enter(this);
  }
}

void Recv::Deliver() { channel_->Collect(this); }

void Recv::Abort(const TfStatus& why) {
  FUSEWIRE_DCHECK(!why.ok());
  Ref();
  channel_->home_.Post(static_cast<Mail*>(new AbortMail(this, why)));
}

void Recv::AbortMail::Deliver() {
  recv->channel_->OnAborted(recv, why);
  Recv* held = recv;
  delete this;
  held->Unref();
}

// ---- several receives ----

thread_local RecvGroup* RecvGroup::current = nullptr;

RecvGroup::RecvGroup() : outer_(current) { current = this; }

RecvGroup::~RecvGroup() {
  FUSEWIRE_DCHECK(current == this);
  current = outer_;
  // One mail for each channel, so that no request is sent before all of the group have come home.
  while (!recvs_.empty()) {
    ChannelPtr channel = recvs_.front()->channel();
    auto others =
        std::stable_partition(recvs_.begin(), recvs_.end(), [&](Recv* recv) { return recv->channel() == channel; });
    std::vector<Recv*> same(recvs_.begin(), others);
    recvs_.erase(recvs_.begin(), others);
    channel->GoTogether(std::move(same));
  }
}

// ---- the channel ----

ChannelPtr Channel::Make(task::Task& task, Options options) {
  if (options.tickets == nullptr) options.tickets = std::make_shared<TicketBook>();
  // A client is destroyed on a thread that may wait; the last reference may be dropped on the channel's own reactor.
  return ChannelPtr(new Channel(task, std::move(options)), [](Channel* channel) {
    if (reactor::Reactor::InsideAny()) {
      tensorflow::Env::Default()->SchedClosure([channel] { delete channel; });
    } else {
      delete channel;
    }
  });
}

Channel::Channel(task::Task& task, Options options)
    : options_(std::move(options)),
      own_task_(ShortTask(task.name())),
      client_(task, options_.address, ClientOptions()),
      home_(client_.home()),
      cleanup_timer_([this] { SendCleanups(); }) {
  // The peer has just said where its data port is.
  losses_.recovers_until_ns.store(NowNs() + options_.recovery_ns, std::memory_order_relaxed);
}

Channel::~Channel() {
  FUSEWIRE_DCHECK(!reactor::Reactor::InsideAny());
  FUSEWIRE_DCHECK(inbox_.empty());  // each receive holds its channel
  client_.Close();
  home_.Run([this] {
    FUSEWIRE_DCHECK(gathered_.empty());
    reactor::Reactor::Disarm(&cleanup_timer_);
    Unlink();
  });
}

rpc::ClientOptions Channel::ClientOptions() {
  rpc::ClientOptions client;
  client.patience_ns = options_.patience_ns;
  client.incarnation = options_.incarnation;
  client.on_up = [this](const char* wire) { OnUp(wire); };
  client.on_down = [this](const Status& why, bool was_up) { OnDown(why, was_up); };
  return client;
}

void Channel::OnUp(const char* wire) {
  FUSEWIRE_AT_HOME(home_);
  alive_.store(true, std::memory_order_relaxed);
  if (!options_.protocol.empty()) TellOfConnection(options_.target, options_.protocol, wire);
}

void Channel::OnDown(const Status& why, bool was_up) {
  if (was_up) {
    const int64_t silent_ns = std::max<int64_t>(why.age_ms(), 0) * kMillisecondNs;
    losses_.recovers_until_ns.store(NowNs() - silent_ns + options_.recovery_ns, std::memory_order_relaxed);
  }
  // At a place that others have named, the first dial fails too if that process is frozen, or has given the task away.
  if (was_up || options_.epoch > 1) alive_.store(false, std::memory_order_relaxed);
  losses_.count.fetch_add(1, std::memory_order_release);
  if (was_up && options_.on_lost != nullptr) options_.on_lost();
}

void Channel::Supersede() {
  losses_.is_superseded.store(true, std::memory_order_release);
  client_.GiveUp(Status::Unavailable("another process has its task"));
}

void Channel::ReportStatus(const Status& status) {
  if (IsLost(status)) alive_.store(false, std::memory_order_relaxed);
}

void Channel::GoTogether(std::vector<Recv*> recvs) {
  home_.Post([recvs = std::move(recvs)] {
    for (Recv* recv : recvs) recv->Deliver();
  });
}

void Channel::Enter(Recv* recv) {
  inbox_.Push(recv);
  if (!is_called_.exchange(true)) home_.Post(static_cast<Mail*>(&gather_mail_));
}

// An executor starts its receives one after the other, less than a microsecond apart. A request with only the first one
// would be followed by up to twenty others, and each would be answered on its own. Receives that are requested ahead do
// not come through here; those of first steps, of loops and into an accelerator's memory do. The figures are in
// bench/notes/training.md.
void Channel::Gather() {
  FUSEWIRE_AT_HOME(home_);
  static const int64_t quiet_ns =
      reactor::UsableCpuCount() < 2 ? 0 : kQuietNs;  // a wait would keep the executor off a single processor
  ChannelPtr self = shared_from_this();              // the receives hold it, and may end in here
  Clock* clock = home_.clock();
  int64_t now_ns = clock->NowNs(), last_ns = now_ns, end_ns = now_ns + kGatherNsMax;
  int looks = 0;
  do {
    if (inbox_.DeliverAll() > 0) last_ns = now_ns;
    now_ns = clock->NowNs();
  } while (now_ns - last_ns < quiet_ns && now_ns < end_ns && ++looks < kLooksMax);
  is_called_.store(false);
  if (!inbox_.empty() && !is_called_.exchange(true)) home_.Post(static_cast<Mail*>(&gather_mail_));
}

void Channel::Collect(Recv* recv) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(!recv->asked_);
  FUSEWIRE_DCHECK(!recv->ended_);
  recv->asked_ = true;
  if (!recv->aborted_.ok()) {
    recv->ended_ = true;
    End(recv, recv->aborted_, Tensor(), false);
    return;
  }
  gathered_.push_back(recv);
  home_.FlushLater(this);
}

void Channel::Flush() {
  FUSEWIRE_AT_HOME(home_);
  std::vector<Recv*> recvs = std::move(gathered_);
  gathered_.clear();
  for (size_t from = 0; from < recvs.size(); from += kWantsMax) {
    size_t to = std::min(recvs.size(), from + kWantsMax);
    Ask(std::vector<Recv*>(recvs.begin() + static_cast<ptrdiff_t>(from), recvs.begin() + static_cast<ptrdiff_t>(to)));
  }
}

void Channel::Ask(std::vector<Recv*> recvs) { (new ReceiveCall(shared_from_this(), std::move(recvs)))->Ask(); }

// At home. Its request still holds it: a body may be landing in its memory.
void Channel::OnAborted(Recv* recv, const TfStatus& why) {
  FUSEWIRE_AT_HOME(home_);
  if (recv->ended_) return;
  if (!recv->asked_) {
    recv->aborted_ = why;
    return;
  }
  recv->ended_ = true;
  recv->Ref();
  End(recv, why, Tensor(), false);
}

void Channel::End(Recv* recv, const TfStatus& status, const Tensor& tensor, bool is_dead) {
  FUSEWIRE_DCHECK(!is_dead || status.ok());
  recv->event_.End(status.ok(), tensor.TotalBytes(), [&](observe::EventFacts* facts) {
    facts->peer = ShortTask(options_.target);
    facts->name = std::string(EdgeOfKey(recv->key()));
    facts->bytes_in = tensor.TotalBytes();
    if (!status.ok()) facts->error = status.ToString();
  });
  recv->OnEnd(status, tensor, is_dead);
  recv->Unref();
}

void Channel::CleanUp(int64_t step) {
  bool first;
  {
    MutexLock lock(cleanups_mutex_);
    first = cleanups_.empty();
    cleanups_.push_back(step);
  }
  if (!first) return;
  std::weak_ptr<Channel> weak = weak_from_this();
  home_.Post([weak] {
    ChannelPtr channel = weak.lock();
    if (channel != nullptr && !channel->cleanup_timer_.armed())
      channel->home_.Arm(&channel->cleanup_timer_, kCleanupDelayNs);
  });
}

void Channel::TakeCleanups(std::string* head) {
  MutexLock lock(cleanups_mutex_);
  size_t count = std::min(cleanups_.size(), kCleanupsMax);
  AppendVarint(head, count);
  for (size_t i = 0; i < count; ++i) AppendFixed64(head, static_cast<uint64_t>(cleanups_[i]));
  cleanups_.erase(cleanups_.begin(), cleanups_.begin() + static_cast<ptrdiff_t>(count));
}

void Channel::SendCleanups() {
  FUSEWIRE_AT_HOME(home_);
  ChannelPtr self = weak_from_this().lock();
  if (self == nullptr) return;  // about to be destroyed
  {
    MutexLock lock(cleanups_mutex_);
    if (cleanups_.empty()) return;
    if (cleanups_.size() > kCleanupsMax) home_.Arm(&cleanup_timer_, kMillisecondNs);
  }
  std::string text;
  TakeCleanups(&text);
  SendOneWay(std::move(self), kCleanupGraph, std::move(text));
}

void Channel::BeginCall(uint16_t method, const char* name, observe::Event* call) {
  FUSEWIRE_DCHECK(method < call_tags_.size());
  if (observe::TheRecorder() == nullptr) return;
  uint32_t tag = call_tags_[method].load(std::memory_order_relaxed);
  if (tag == 0) {
    tag = observe::FindTag(observe::Kind::kCall, own_task_, ShortTask(options_.target), name);
    call_tags_[method].store(tag, std::memory_order_relaxed);
  }
  call->Begin(observe::Kind::kCall, tag, 0, 0);
}

void Channel::AbortStep(int64_t step) {
  std::string text;
  AppendFixed64(&text, static_cast<uint64_t>(step));
  SendOneWay(shared_from_this(), kAbortStep, std::move(text));
}

// ---- calls that come again ----

TicketBook::TicketBook() : client_(SystemRandom64()) {}

Ticket TicketBook::Take() {
  MutexLock lock(mutex_);
  open_.push_back(++last_);
  return Ticket{client_, last_, open_.front()};
}

void TicketBook::GiveBack(const Ticket& ticket) {
  FUSEWIRE_DCHECK(ticket.client == client_);
  MutexLock lock(mutex_);
  auto found = std::lower_bound(open_.begin(), open_.end(), ticket.number);
  FUSEWIRE_CHECK(found != open_.end() && *found == ticket.number);
  open_.erase(found);
}

bool HasLost(const Channel& channel, const Status& status) {
  return IsLost(status) || (status.code() == Code::kTimeout && !channel.alive());
}

void Repeats::Begin(const Channel& channel) { losses_ = channel.losses().count.load(std::memory_order_acquire); }

bool Repeats::IsAgain(const Channel& channel, Status* status) {
  // While the connection stands, an error is about the call itself.
  if (status->ok() || channel.losses().count.load(std::memory_order_acquire) == losses_) return false;
  const bool is_first = deadline_ns_ == 0;
  if (is_first) {
    first_ = *status;
    deadline_ns_ = channel.losses().recovers_until_ns.load(std::memory_order_relaxed);
  }
  // A port that does not answer the first dial is behind a firewall, or the address is wrong.
  const bool may_help = status->code() == Code::kUnavailable || status->code() == Code::kCorrupt ||
                        (status->code() == Code::kTimeout && !is_first);
  const bool is_dead = status->system_error() == ECONNREFUSED;  // its port is closed
  if (may_help && !is_dead && !channel.losses().is_superseded.load(std::memory_order_acquire) &&
      channel.NowNs() < deadline_ns_) {
    GlobalCounters().Add(&Counters::calls_repeated);
    return true;
  }
  if (IsLost(*status) || status->code() == Code::kTimeout) *status = first_;
  return false;
}

}  // namespace fusewire::tf
