// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/task.h"

#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace task {

Result<std::unique_ptr<Task>> Task::Start(TaskOptions options) {
  FUSEWIRE_TRY(pipe::CheckOptions(options.pipe));
  Result<std::unique_ptr<reactor::Pool>> pool = reactor::Pool::Start(options.pool);
  if (!pool.ok()) return pool.status();
  const bool shares = options.wire == pipe::TransportChoice::kShm ||
                      (options.wire == pipe::TransportChoice::kAuto && !options.tcp.resolve);
  auto task =
      Make(std::move(options.pipe), std::move(pool).value(), pipe::MakeTransport(options.wire, std::move(options.tcp)));
  task->may_share_ = shares;
  return task;
}

std::unique_ptr<Task> Task::Make(pipe::Options options, std::unique_ptr<reactor::Pool> pool,
                                 std::unique_ptr<transport::Transport> transport) {
  return std::unique_ptr<Task>(new Task(std::move(options), std::move(pool), std::move(transport)));
}

Task::Task(pipe::Options options, std::unique_ptr<reactor::Pool> pool, std::unique_ptr<transport::Transport> transport)
    : shared_(std::move(options)),
      pool_(std::move(pool)),
      transport_(std::move(transport)),
      acceptor_(std::make_unique<pipe::Acceptor>(shared_, *pool_, *transport_)) {}

Task::~Task() {
  // A service that is left would reach for reactors that have gone.
  FUSEWIRE_CHECK(acceptor_->services() == 0);
  acceptor_.reset();
  transport_.reset();  // its resolver may still have answers for the reactors
  pool_->Close();
}

}  // namespace task
}  // namespace fusewire
