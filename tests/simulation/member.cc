// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "member.h"

#include <algorithm>

#include "fusewire/base/check.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/transport/transport.h"
#include "handler.h"

namespace fusewire::simulation {

Held::Held(Task* task, uint64_t bytes) : task_(task), bytes_(bytes) { task_->Hold(bytes); }

void Held::LetGo() { task_->LetGo(std::exchange(bytes_, 0)); }

// ---- one incarnation ----

Task::Task(Run* run_in, int index_in, const std::string& host_in, reactor::Reactor* home_in, uint64_t incarnation_in)
    : run(*run_in), index(index_in), host(host_in), incarnation(incarnation_in), home(home_in) {
  pipe::Options options = run.plan.members[static_cast<size_t>(index)].pipe;
  options.incarnation = incarnation;
  task = task::Task::Make(options, reactor::Pool::Around(home), run.world.MakeTransport(host));
  OpenServer();
}

Task::~Task() {
  // Answers may be dropped before or after their server.
  if (incarnation % 2 == 0) owed.clear();
  CloseClients();
  CloseServer();
  owed.clear();
  home->Run([] {});
  task.reset();
}

void Task::OpenServer() {
  if (server != nullptr) return;
  auto opened =
      rpc::Server::Open(*task, {"", 5555}, MakeMethods(this), run.plan.members[static_cast<size_t>(index)].server);
  FUSEWIRE_CHECK(opened.ok());
  server = std::move(opened).value();
}

void Task::CloseServer() { server.reset(); }

rpc::Client& Task::ClientOf(int peer, int lane, std::shared_ptr<ClientLife>* life) {
  Link& link = links_[{peer, lane}];
  if (link.client == nullptr) {
    link.life = std::make_shared<ClientLife>();
    link.life->closing = closing_clients_;
    link.client = std::make_unique<rpc::Client>(*task, transport::Address{Member::AliasOf(peer), 5555},
                                                run.plan.members[static_cast<size_t>(index)].client);
  }
  *life = link.life;
  return *link.client;
}

void Task::CloseClients() {
  closing_clients_ = true;
  for (auto& [peer, link] : links_) link.life->closing = true;
  // A Done may start a call on a client that is still there.
  for (auto& [peer, link] : links_) link.client->Close();
  std::map<std::pair<int, int>, Link> links;
  links.swap(links_);
  for (auto& [peer, link] : links) {
    link.client.reset();
    link.life->gone = true;
  }
  closing_clients_ = false;
}

// ---- memory ----

// docs/buffers.md, "The budget".
uint64_t Task::HoldMax() const {
  const pipe::Options& options = task->context().options();
  uint64_t pipes = links_.size() + (server == nullptr ? 0 : task->acceptor().Snapshot().open);
  uint64_t large = run.bytes_max + options.window_bytes / 4 + kCopyBytesMax;
  return std::max(options.receive_budget_bytes, large) + pipes * options.window_bytes;
}

void Task::Hold(uint64_t bytes) {
  held_bytes_ += bytes;
  if (held_bytes_ <= HoldMax()) return;
  run.journal.Find("over-budget", "%d holds %llu bytes of messages, at most %llu were promised", index,
                   static_cast<unsigned long long>(held_bytes_), static_cast<unsigned long long>(HoldMax()));
}

void Task::LetGo(uint64_t bytes) {
  FUSEWIRE_CHECK(held_bytes_ >= bytes);
  held_bytes_ -= bytes;
}

void Task::Look() {
  rpc::Snapshot snapshot;
  if (server != nullptr) snapshot = server->Snapshot();
  for (auto& [peer, link] : links_) snapshot.peers.push_back(link.client->Snapshot());
  uint64_t bytes = 0;
  for (const rpc::PeerSnapshot& peer : snapshot.peers) bytes += peer.bytes_in + peer.bytes_out;
  run.journal.Say("%d counts %zu peers, %llu bytes", index, snapshot.peers.size(),
                  static_cast<unsigned long long>(bytes));
}

void Task::CheckIdle() {
  Journal& journal = run.journal;
  Budget& budget = task->context().receive_budget();
  Budget::Share canary(&budget);
  if (run.meddler.Strikes(Meddle::kHoldBudget)) (void)canary.TryReserve(1);
  if (budget.used_bytes() != 0) {
    journal.Find("budget-held", "%d: %llu bytes of the receive budget are held by nobody's message", index,
                 static_cast<unsigned long long>(budget.used_bytes()));
  }
  uint64_t large = run.bytes_max + task->context().options().window_bytes / 4 + kCopyBytesMax;
  if (budget.peak_bytes() > std::max(budget.limit_bytes(), large)) {
    journal.Find("over-budget", "%d: the budget's peak is %llu of %llu bytes", index,
                 static_cast<unsigned long long>(budget.peak_bytes()),
                 static_cast<unsigned long long>(budget.limit_bytes()));
  }
  if (server != nullptr && server->calls_in_flight() != 0) {
    journal.Find("calls-left", "%d: the server still has %llu calls", index,
                 static_cast<unsigned long long>(server->calls_in_flight()));
  }
  for (auto& [peer, link] : links_) {
    uint64_t calls = link.client->Snapshot().calls_in_flight;
    if (calls != 0) {
      journal.Find("calls-left", "%d: the client of %d still has %llu calls", index, peer.first,
                   static_cast<unsigned long long>(calls));
    }
  }
  if (held_bytes_ != 0) {
    journal.Find("memory-held", "%d still holds %llu bytes of messages", index,
                 static_cast<unsigned long long>(held_bytes_));
  }
}

// ---- answers that are owed ----

Owed* Task::Owe(const Question& question, rpc::Request request, rpc::Reply reply) {
  owed.emplace_back();
  Owed& one = owed.back();
  one.question = &question;
  one.reply = std::move(reply);
  one.body = std::move(request.body);
  one.sink = std::move(request.sink);
  return &one;
}

Owed* Task::FindOwed(int number) {
  for (Owed& one : owed) {
    if (one.question->number == number) return &one;
  }
  return nullptr;
}

void Task::Forget(Owed* gone) {
  owed.remove_if([gone](const Owed& one) { return &one == gone; });
}

// ---- a member over its incarnations ----

Member::Member(Run* run, int index) : run_(*run), index_(index), host_("h" + std::to_string(index)) {
  reactor::Reactor* home = run_.world.AddHost(host_);
  run_.world.PointName(AliasOf(index_), host_);
  Begin(home);
}

Member::~Member() = default;

Task* Member::TaskOf(uint64_t incarnation) {
  if (task_ != nullptr && task_->incarnation == incarnation) return task_.get();
  if (zombie_ != nullptr && zombie_->incarnation == incarnation) return zombie_.get();
  return dying_ != nullptr && dying_->incarnation == incarnation ? dying_ : nullptr;
}

void Member::Begin(reactor::Reactor* home) {
  uint64_t incarnation = Random(run_.plan.seed + static_cast<uint64_t>(index_) * 1000 + ++incarnations_).Next() | 2;
  task_ = std::make_unique<Task>(&run_, index_, host_, home, incarnation);
}

void Member::Kill(transport::LoopbackDeath death) {
  if (task_->paused) Resume();
  run_.world.KillHost(host_, death);
  TakeDown(std::move(task_));
}

// Work during its shutdown may still look it up.
void Member::TakeDown(std::unique_ptr<Task> task) {
  dying_ = task.get();
  task.reset();
  dying_ = nullptr;
}

void Member::End() {
  if (task_ != nullptr) TakeDown(std::move(task_));
}

void Member::Restart(bool elsewhere) {
  reactor::Reactor* home = nullptr;
  if (elsewhere) {
    host_ = "h" + std::to_string(index_) + "-" + std::to_string(++moves_);
    home = run_.world.AddHost(host_);
    run_.world.PointName(AliasOf(index_), host_);
  } else {
    home = run_.world.RestartHost(host_);
  }
  Begin(home);
}

void Member::Pause() {
  task_->paused = true;
  paused_until_ns_ = kForeverNs - kSecondNs;  // for as long as it lasts
  run_.world.PauseHost(host_);
}

void Member::Resume() {
  task_->paused = false;
  paused_until_ns_ = run_.now_ns();
  run_.world.ResumeHost(host_);
}

void Member::BeReplaced() {
  Pause();
  zombie_ = std::move(task_);
  Restart(true);
}

void Member::ResumeZombie() {
  zombie_->paused = false;
  paused_until_ns_ = run_.now_ns();
  run_.world.ResumeHost(zombie_->host);
}

void Member::KillZombie() {
  if (zombie_->paused) ResumeZombie();
  run_.world.KillHost(zombie_->host, transport::LoopbackDeath::kReset);
  TakeDown(std::move(zombie_));
}

}  // namespace fusewire::simulation
