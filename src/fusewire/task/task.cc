// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/task.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/transport/transport.h"

namespace fusewire::task {

struct Task::Impl {
  Impl(pipe::Options options, std::unique_ptr<reactor::Pool> pool_in,
       std::unique_ptr<transport::Transport> transport_in)
      : context(std::move(options)),
        pool(std::move(pool_in)),
        transport(std::move(transport_in)),
        acceptor(std::make_unique<Acceptor>(context, *pool, *transport)) {}

  pipe::PipeContext context;
  std::unique_ptr<reactor::Pool> pool;
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<Acceptor> acceptor;
  bool may_share = false;
};

Result<std::unique_ptr<Task>> Task::Start(TaskOptions options) {
  FUSEWIRE_TRY(pipe::CheckOptions(options.pipe));
  std::unique_ptr<reactor::Pool> pool = FUSEWIRE_TRY(reactor::Pool::Start(options.pool));
  const bool shares =
      options.wire == TransportChoice::kShm || (options.wire == TransportChoice::kAuto && !options.tcp.resolve);
  auto transport = FUSEWIRE_TRY(MakeTransport(options.wire, std::move(options.tcp), std::move(options.protection)));
  auto task = Make(std::move(options.pipe), std::move(pool), std::move(transport));
  task->impl_->may_share = shares;
  return task;
}

std::unique_ptr<Task> Task::Make(pipe::Options options, std::unique_ptr<reactor::Pool> pool,
                                 std::unique_ptr<transport::Transport> transport) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(pool), std::move(transport));
  return std::unique_ptr<Task>(new Task(std::move(impl)));
}

Task::Task(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Task::~Task() {
  // A service that is left would reach for reactors that have gone.
  FUSEWIRE_CHECK(impl_->acceptor->services() == 0);
  impl_->acceptor.reset();
  impl_->transport.reset();  // its resolver may still have answers for the reactors
  impl_->pool->Close();
}

Status Task::Listen(const transport::Address& address, pipe::PortRange ports) {
  return impl_->acceptor->Listen(address, ports);
}

transport::Address Task::address() const { return impl_->acceptor->address(); }
const std::string& Task::name() const { return impl_->context.options().name; }
bool Task::may_share() const { return impl_->may_share; }
Acceptor& Task::acceptor() { return *impl_->acceptor; }
pipe::PipeContext& Task::context() { return impl_->context; }
reactor::Pool& Task::pool() { return *impl_->pool; }
transport::Transport& Task::transport() { return *impl_->transport; }

}  // namespace fusewire::task
