// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The communicators of this process: MPI_COMM_WORLD over the group that Python has joined, and those split from it.
// Home: any thread; a lock guards the table, and is not held while an operation runs.
// Owns: the groups of split communicators, and the operations under way; the world's group and its endpoint are
// Python's, and outlive it until Leave. Fails: a split that fails gives a communicator whose operations say why,
// because XLA ignores what MPI_Comm_split returns.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/collective/c_api/group_c_api.h"
#include "fusewire/mpi/abi.h"

namespace fusewire::mpi {

// An error is its class, and the text that MPI_Error_string gives for it on the thread where it came up.
// Keeps the text, and returns the class.
int Fail(int error_class, std::string text);
// Of a code of the C API, whose text is fusewire_error(). `what`: what failed, in front of it.
int FailAs(int code, const std::string& what);
// The last error's text on this thread, if it was of this class.
std::string TextOf(int error_class);

constexpr size_t kNoticeBytes = 512;

struct Communicator {
  std::string name;
  std::vector<int> ranks;  // of the world; the index is the rank here
  int rank = 0;
  uint64_t tags = 0;  // the upper half of its messages' tags
  fusewire_group* group = nullptr;
  std::string failure;  // not empty: why it could not be made, or what has failed in it
  // A receive from any rank, once messages are used: a rank in which something fails tells the others why.
  fusewire_op* notice = nullptr;
  std::array<char, kNoticeBytes> notice_text{};
};

// A send or a receive under way.
struct Request {
  fusewire_op* op = nullptr;
  Handle communicator = 0;
  std::thread::id thread;  // that began it
  std::string what;
  size_t bytes_max = 0;
  bool receives = false;
  int peer = 0;
  int tag = 0;
};

class World;

// A communicator that stays while this lives.
class Use {
 public:
  explicit Use(World& world, Handle handle);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Null: no such communicator, or this process is not in a group.
  const Communicator* communicator() const { return communicator_; }
  const Communicator* operator->() const { return communicator_; }
  // Not 0: it can't be used, and Fail() has been called.
  int error() const { return error_; }

 private:
  World& world_;
  const Communicator* communicator_ = nullptr;
  int error_ = 0;
};

class World {
 public:
  // The group of all ranks, with the name and address of each one's endpoint. timeout_ns of an operation; 0: the
  // group's.
  void Join(fusewire_endpoint* endpoint, fusewire_group* group, std::vector<std::string> names,
            std::vector<std::string> addresses, int64_t timeout_ns) FUSEWIRE_EXCLUDES(mutex_);
  // Ends all operations, and frees the groups of split communicators. False: an operation has not ended in time, and
  // the endpoint has to stay.
  bool Leave() FUSEWIRE_EXCLUDES(mutex_);
  // The next splits are among these ranks alone, which all expect them; empty: among all ranks again.
  void Expect(std::vector<int> ranks) FUSEWIRE_EXCLUDES(mutex_);

  // As MPI_Comm_split of MPI_COMM_WORLD, but for its failures: see above.
  Handle Split(int color, int key) FUSEWIRE_EXCLUDES(mutex_);
  void Free(Handle handle) FUSEWIRE_EXCLUDES(mutex_);
  // An operation of it has failed: all later ones do, here and in the other processes, which are notified.
  void Break(Handle handle, const std::string& why) FUSEWIRE_EXCLUDES(mutex_);
  // Begins to receive the failures of other processes. May be repeated.
  void Listen(Handle handle) FUSEWIRE_EXCLUDES(mutex_);
  // The failure that one has sent, if any; the communicator is then broken.
  std::string Told(Handle handle) FUSEWIRE_EXCLUDES(mutex_);

  int64_t timeout_ns() const { return timeout_ns_; }
  fusewire_endpoint* endpoint() const { return endpoint_; }
  // Null: FailAs() has been called.
  fusewire_peer* PeerOf(int world_rank) FUSEWIRE_EXCLUDES(mutex_);

  Handle Keep(std::unique_ptr<Request> request) FUSEWIRE_EXCLUDES(mutex_);
  // Null: there is none.
  std::unique_ptr<Request> Take(Handle handle) FUSEWIRE_EXCLUDES(mutex_);
  // Ends the operations that this thread has begun on a communicator: XLA frees their memory after an error.
  void DropRequests(Handle communicator) FUSEWIRE_EXCLUDES(mutex_);

 private:
  friend class Use;
  struct Membership {
    std::vector<int> ranks;
    std::string name;
    std::string failure;
  };

  // One user less.
  void Release() FUSEWIRE_EXCLUDES(mutex_);
  Membership AmongAll(const Communicator& all, int color, int key) FUSEWIRE_EXCLUDES(mutex_);
  Membership AmongExpected(const Communicator& all, std::vector<int> expected, int color, int key)
      FUSEWIRE_EXCLUDES(mutex_);
  Membership Ask(fusewire_group* group, const std::vector<int>& ranks, int color, int key);
  // How often this was called with this name.
  int Count(const std::string& name) FUSEWIRE_EXCLUDES(mutex_);
  void Tell(const Communicator& communicator, const std::string& why) FUSEWIRE_EXCLUDES(mutex_);
  Handle Add(std::unique_ptr<Communicator> communicator) FUSEWIRE_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  fusewire_endpoint* endpoint_ = nullptr;
  int64_t timeout_ns_ = 0;
  std::vector<std::string> names_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<std::string> addresses_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<fusewire_peer*> peers_ FUSEWIRE_GUARDED_BY(mutex_);
  std::map<Handle, std::unique_ptr<Communicator>> communicators_ FUSEWIRE_GUARDED_BY(mutex_);
  std::map<Handle, std::unique_ptr<Request>> requests_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Communicator>> freed_ FUSEWIRE_GUARDED_BY(mutex_);  // while another thread uses one
  Handle next_ FUSEWIRE_GUARDED_BY(mutex_) = 1024;                                // above every constant
  std::vector<int> expected_ FUSEWIRE_GUARDED_BY(mutex_);
  std::map<std::string, int> made_ FUSEWIRE_GUARDED_BY(mutex_);
  int users_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
};

// The one of this process.
World& TheWorld();

}  // namespace fusewire::mpi
