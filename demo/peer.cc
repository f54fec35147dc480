// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "peer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/rpc/rpc.h"

namespace fusewire::demo {

// ---- over Fusewire ----

namespace {

// Lands every pushed tensor in the same memory, as a parameter server's gradient buffer would.
class GradientSink final : public rpc::RequestSink {
 public:
  GradientSink(std::vector<uint8_t>* memory, uint64_t bytes) {
    if (memory->size() < bytes) memory->resize(bytes);
    part_ = Bytes(memory->data(), bytes);
  }
  pipe::Landing Where() override { return pipe::Landing::Into(&part_, 1); }

 private:
  Bytes part_;
};

struct Model {
  std::vector<std::vector<uint8_t>> tensors;
  std::vector<uint8_t> gradients;

  Model() {
    for (int i = 0; i < kTensors; ++i) {
      std::vector<uint8_t> tensor(TensorBytes(i));
      for (size_t at = 0; at < tensor.size(); ++at) tensor[at] = TensorByte(i, at);
      tensors.push_back(std::move(tensor));
    }
  }
};

std::vector<rpc::Method> Methods(Model* model) {
  std::vector<rpc::Method> methods(3);
  methods[0].number = kEcho;
  methods[0].name = "echo";
  methods[0].handle = [](rpc::Request request, rpc::Reply reply) { reply.Send(Status::Ok(), request.head); };
  methods[1].number = kTake;
  methods[1].name = "take";
  methods[1].make_sink = [model](ConstBytes,
                                 const rpc::SegmentSizes& sizes) -> Result<std::unique_ptr<rpc::RequestSink>> {
    return std::unique_ptr<rpc::RequestSink>(std::make_unique<GradientSink>(&model->gradients, sizes.total()));
  };
  methods[1].handle = [](rpc::Request, rpc::Reply reply) { reply.Send(Status::Ok()); };
  methods[2].number = kParameters;
  methods[2].name = "parameters";
  methods[2].handle = [model](rpc::Request, rpc::Reply reply) {
    // By reference: the model outlives every reply, so there is nothing to release.
    Buffers body;
    for (auto& tensor : model->tensors)
      body.push_back(Buffer::Wrap(Bytes(tensor.data(), tensor.size()), nullptr, nullptr));
    reply.Send(Status::Ok(), ConstBytes(), std::move(body));
  };
  return methods;
}

}  // namespace

size_t TensorBytes(int index) {
  return (1000 + static_cast<size_t>(index) * 4987 % 99000) / sizeof(float) * sizeof(float);
}

size_t AllTensorBytes() {
  size_t sum = 0;
  for (int i = 0; i < kTensors; ++i) sum += TensorBytes(i);
  return sum;
}

uint8_t TensorByte(int index, size_t at) {
  return static_cast<uint8_t>(static_cast<size_t>(index) * 31 + at * 7 + (at >> 8));
}

void ServeFusewire(uint16_t port, const std::function<void(uint16_t)>& ready) {
  Model model;
  task::TaskOptions options;
  options.pipe.cluster = "demo";
  options.pipe.name = "ps:0";
  options.wire = task::TransportChoice::kTcp;  // as for the raw sockets
  options.pool.reactors = 1;
  auto task = task::Task::Start(std::move(options));
  if (!task.ok()) {
    std::fprintf(stderr, "%s\n", task.status().ToString().c_str());
    return;
  }
  auto server = rpc::Server::Open(*task.value(), transport::Address{"127.0.0.1", port}, Methods(&model));
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return;
  }
  ready(server.value()->address().port);
  for (;;) pause();  // until this process is killed
}

// ---- over raw sockets ----

namespace {

constexpr size_t kBufferBytes = 32 << 20;

struct Ask {
  uint64_t follow_bytes;
  uint64_t wanted_bytes;
};

bool ReadAll(int fd, void* into, size_t size) {
  auto* at = static_cast<uint8_t*>(into);
  while (size > 0) {
    ssize_t got = recv(fd, at, size, MSG_WAITALL);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// One gathered write for both parts, as a careful programmer would do.
bool WriteBoth(int fd, const void* first, size_t first_size, const void* second, size_t second_size) {
  iovec parts[2] = {{const_cast<void*>(first), first_size}, {const_cast<void*>(second), second_size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    for (iovec& part : parts) {
      size_t step = std::min(part.iov_len, static_cast<size_t>(sent));
      part.iov_base = static_cast<uint8_t*>(part.iov_base) + step;
      part.iov_len -= step;
      sent -= static_cast<ssize_t>(step);
    }
  }
  return true;
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::vector<uint8_t>& Memory() {
  static std::vector<uint8_t> memory(kBufferBytes, 1);
  return memory;
}

void NoDelay(int fd) {
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void ServeOne(int fd) {
  NoDelay(fd);
  Ask ask;
  while (ReadAll(fd, &ask, sizeof(ask))) {
    if (ask.follow_bytes > kBufferBytes || ask.wanted_bytes > kBufferBytes) break;
    if (!ReadAll(fd, Memory().data(), ask.follow_bytes)) break;
    if (!WriteBoth(fd, nullptr, 0, Memory().data(), ask.wanted_bytes)) break;
  }
  close(fd);
}

}  // namespace

void ServeRaw(uint16_t port, const std::function<void(uint16_t)>& ready) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port);
  socklen_t length = sizeof(address);
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, where, length) != 0 || listen(listener, 8) != 0) return;
  if (getsockname(listener, where, &length) != 0) return;
  Memory();
  ready(ntohs(address.sin_port));
  for (;;) {
    int fd = accept(listener, nullptr, nullptr);
    if (fd >= 0) ServeOne(fd);
  }
}

Result<RawClient> RawClient::Connect(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Status::FromErrno(Code::kUnavailable, "connect", errno).Phase("connect a raw socket");
  }
  NoDelay(fd);
  Memory();
  return RawClient(fd);
}

RawClient::RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RawClient::~RawClient() {
  if (fd_ >= 0) close(fd_);
}

bool RawClient::Exchange(size_t out_bytes, size_t in_bytes) {
  Ask ask = {out_bytes, in_bytes};
  return WriteBoth(fd_, &ask, sizeof(ask), Memory().data(), out_bytes) && ReadAll(fd_, Memory().data(), in_bytes);
}

// ---- the process ----

namespace {

constexpr int kReadyFd = 3;

}  // namespace

Result<ChildProcess> ChildProcess::Start(const char* what, uint16_t port) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno(Code::kOverloaded, "pipe2", errno).Phase("start a process");
  pid_t parent = getpid();
  std::string number = std::to_string(port);
  pid_t pid = fork();
  if (pid < 0) return Status::FromErrno(Code::kOverloaded, "fork", errno).Phase("start a process");
  if (pid == 0) {
    // Only async-signal-safe calls between fork and exec: other threads may have been stopped while holding locks.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    if (ends[1] == kReadyFd) {
      fcntl(kReadyFd, F_SETFD, 0);
    } else {
      dup2(ends[1], kReadyFd);
    }
    execl("/proc/self/exe", "fusewire_demo", "--serve", what, number.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  pollfd ready = {ends[0], POLLIN, 0};
  uint16_t taken = 0;
  bool heard = poll(&ready, 1, 10000) == 1 && read(ends[0], &taken, sizeof(taken)) == sizeof(taken);
  close(ends[0]);
  ChildProcess child(pid, taken);
  if (!heard) return Status::Timeout("the child process did not start to serve within 10 s").Phase("start a process");
  return child;
}

void ChildProcess::Ready(uint16_t port) {
  ssize_t written = write(kReadyFd, &port, sizeof(port));
  (void)written;
  close(kReadyFd);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)), port_(other.port_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    Kill();
    pid_ = std::exchange(other.pid_, -1);
    port_ = other.port_;
  }
  return *this;
}

void ChildProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace fusewire::demo
