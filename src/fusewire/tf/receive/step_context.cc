// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/receive/step_context.h"

#include <algorithm>
#include <set>
#include <utility>

#include <absl/strings/str_cat.h>
#include "fusewire/base/check.h"

namespace fusewire::tf {

thread_local bool StepThread::is_here_ = false;
thread_local std::vector<StepThread::Held> StepThread::held_;

std::vector<Mail*> StepThread::Prepare(const std::vector<Held>& held) {
  const reactor::Reactor& home = HomeOf(held);
  std::vector<Mail*> mails;
  mails.reserve(held.size());
  for (const Held& one : held) {
    rpc::Client& client = one.channel->client();
    if (&client.home() == &home) {
      mails.push_back(client.Prepare(one.call));
    } else {
      client.Start(one.call);
    }
  }
  return mails;
}

void StepThread::StartHeld() {
  const std::vector<Held> held = std::exchange(held_, {});
  if (held.empty()) return;
  const std::vector<Mail*> mails = Prepare(held);
  HomeOf(held).HandIn(mails.data(), mails.size());
}

void StepThread::Wait(reactor::Waiter* waiter, int64_t until_ns, reactor::Reactor* loop) {
  const std::vector<Held> held = std::exchange(held_, {});
  if (!held.empty()) {
    const std::vector<Mail*> mails = Prepare(held);
    static_cast<void>(HomeOf(held).PostAndWait(mails.data(), mails.size(), waiter, until_ns));
  } else if (loop != nullptr) {
    static_cast<void>(loop->Wait(waiter, until_ns));
  } else {
    static_cast<void>(waiter->Sleep(Clock::Real(), until_ns, reactor::Interrupts::kGoOn));
  }
}

TfStatus FindWays(const GrpcCachePtr& cache, const std::string& task, Ways* ways) {
  // Sessions wrap their cache, so it is the worker that has to be asked.
  tensorflow::WorkerInterface* worker = cache->GetOrCreateWorker(task);
  if (worker == nullptr) return absl::InternalError(absl::StrCat("No worker known as ", task));
  auto* has_ways = dynamic_cast<HasWays*>(worker);
  if (has_ways != nullptr) {
    *ways = has_ways->ways();
  } else {
    ways->side = std::make_shared<GrpcSide>(cache, task);
  }
  cache->ReleaseWorker(task, worker);
  return TfStatus();
}

ChannelPtr NextOf(const std::vector<Ways>& ways, uint64_t turn) {
  if (ways.empty()) return nullptr;
  const Ways& next = ways[turn % ways.size()];
  ChannelPtr found = next.peer->channel();
  if (found == nullptr) next.peer->Route(next.side, [](const TfStatus&, const ChannelPtr&) {});
  return found != nullptr && found->options().epoch != 0 ? found : nullptr;
}

StepContext::~StepContext() {
  if (left_there_.load(std::memory_order_relaxed) == 0) return;
  for (const ChannelPtr& holder : holders_) holder->CleanUp(step_);
}

void StepContext::SetHandle(const std::string& session, bool is_traced) {
  session_handle_ = session;
  is_traced_ = is_traced;
}

TfStatus StepContext::Find(absl::string_view task, const GrpcCachePtr& cache, Source** source) {
  if (cache != cache_) {
    sources_.clear();
    cache_ = cache;
  }
  auto known = std::find_if(sources_.begin(), sources_.end(), [task](const Source& one) { return one.task == task; });
  if (known != sources_.end()) {
    *source = &*known;
    const bool is_usable = known->channel != nullptr && known->channel->alive();
    if (!is_usable && known->ways.peer != nullptr) known->channel = known->ways.peer->channel();
    return TfStatus();
  }
  Source made;
  made.task = std::string(task);
  TF_RETURN_IF_ERROR(FindWays(cache, made.task, &made.ways));
  if (made.ways.peer != nullptr) {
    made.channel = made.ways.peer->channel();
    // The request to log may come after the step has begun.
    made.is_traced = is_traced_ || made.ways.log->LoggingActive();
  }
  sources_.push_back(std::move(made));
  *source = &sources_.back();
  return TfStatus();
}

TfStatus StepContext::FindSource(absl::string_view task, Source* out) {
  const GrpcCachePtr cache = Cache();
  MutexLock lock(mutex_);
  Source* source = nullptr;
  TF_RETURN_IF_ERROR(Find(task, cache, &source));
  *out = *source;
  return TfStatus();
}

ChannelPtr StepContext::KnownWay(absl::string_view task) {
  const GrpcCachePtr cache = Cache();
  MutexLock lock(mutex_);
  Source* source = nullptr;
  return Find(task, cache, &source).ok() ? source->channel : nullptr;
}

void StepContext::Leave(const std::vector<std::string>& tasks, int64_t values) {
  FUSEWIRE_DCHECK(values > 0);
  left_there_.fetch_add(values, std::memory_order_relaxed);
  for (const std::string& task : tasks) {
    Source source;
    // Without a channel, no value can have been left there.
    if (!FindSource(task, &source).ok() || source.channel == nullptr) continue;
    MutexLock lock(mutex_);
    holders_.push_back(std::move(source.channel));
  }
}

void StepContext::KeepLeaver(Leaver leaver) {
  MutexLock lock(mutex_);
  leavers_.push_back(std::move(leaver));
}

void StepContext::DropLeavers() {
  std::vector<Leaver> leavers;  // destroyed after the lock has been released
  MutexLock lock(mutex_);
  leavers.swap(leavers_);
}

// One that runs again takes what others have left for it, and has taken it already: these run again too.
std::vector<StepContext::Leaver> StepContext::LeaversOf(const std::string& task) {
  std::set<std::string> without{task};
  std::vector<Leaver> all;
  MutexLock lock(mutex_);
  for (auto leaver = leavers_.rbegin(); leaver != leavers_.rend(); ++leaver) {
    const bool is_one = std::any_of(leaver->holders.begin(), leaver->holders.end(),
                                    [&](const std::string& holder) { return without.count(holder) != 0; });
    if (!is_one) continue;
    all.push_back(*leaver);
    if (leaver->takes) without.insert(leaver->task);
  }
  std::reverse(all.begin(), all.end());
  return all;
}

void StepContext::RouteTo(const std::string& task, Routed routed) {
  Source source;
  TfStatus found = FindSource(task, &source);
  if (!found.ok() || source.channel != nullptr || source.ways.peer == nullptr)
    return routed(found, std::move(source.channel));
  source.ways.peer->Route(source.ways.side, std::move(routed));
}

void StepContext::TellAbort(const ChannelPtr& channel) {
  FUSEWIRE_DCHECK(channel != nullptr);
  {
    MutexLock lock(mutex_);
    for (Source& source : sources_) {
      if (source.channel != channel) continue;
      if (source.abort_told) return;
      source.abort_told = true;
    }
  }
  channel->AbortStep(step_);
}

}  // namespace fusewire::tf
