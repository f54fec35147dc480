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

void StepThread::StartHeld() {
  std::vector<Held> held;
  held.swap(held_);
  for (const Held& one : held) one.channel->client().Start(one.call);
}

void StepThread::Wait(reactor::Waiter* waiter, int64_t until_ns, reactor::Reactor* loop) {
  std::vector<Held> held;
  held.swap(held_);
  if (held.empty() && loop != nullptr) {
    static_cast<void>(loop->Wait(waiter, until_ns));
  } else if (held.empty()) {
    static_cast<void>(waiter->Sleep(Clock::Real(), until_ns, reactor::Interrupts::kGoOn));
  } else {
    // Those of one loop start in the same turn, which this thread drives.
    reactor::Reactor& home = held.back().channel->client().home();
    std::vector<Mail*> mails;
    for (const Held& one : held) {
      rpc::Client& client = one.channel->client();
      if (&client.home() == &home) {
        mails.push_back(client.Prepare(one.call));
      } else {
        client.Start(one.call);
      }
    }
    static_cast<void>(home.PostAndWait(mails.data(), mails.size(), waiter, until_ns));
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

TfStatus StepContext::FindSource(absl::string_view task, Source* out) {
  // An eager context keeps its rendezvous while its cluster changes: a name may belong to another task by now.
  GrpcCachePtr cache = session_.load(std::memory_order_acquire)->GetSharedWorkerCache();
  MutexLock lock(mutex_);
  if (cache != cache_) {
    sources_.clear();
    cache_ = cache;
  }
  for (Source& source : sources_) {
    if (source.task != task) continue;
    bool is_usable = source.channel != nullptr && source.channel->alive();
    if (!is_usable && source.ways.peer != nullptr) source.channel = source.ways.peer->channel();
    *out = source;
    return TfStatus();
  }
  Source source;
  source.task = std::string(task);
  TF_RETURN_IF_ERROR(FindWays(cache, source.task, &source.ways));
  if (source.ways.peer != nullptr) {
    source.channel = source.ways.peer->channel();
    // The request to log may come after the step has begun.
    source.is_traced = is_traced_ || source.ways.log->LoggingActive();
  }
  *out = source;
  sources_.push_back(std::move(source));
  return TfStatus();
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
