// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The parts of graphs that a parameter server holds. Workers with the same model share parts by their fingerprints;
// only a part whose kernels keep state of their own is made once per session. A part stays as long as a session has
// placed it; a session's parts are released when TensorFlow reports its end. Each home caches the parts that its runs
// have found, so that they take no lock, and write no word that other homes write. Home: any thread. Owns: the parts,
// together with their runs. Fails: Place, with the reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/star/serve/answers.h"
#include "fusewire/tf/star/serve/part.h"

namespace fusewire::tf {

class Shelf {
 public:
  static constexpr uint64_t kNotHere = 0;

  // `snapshots` may be null: the task keeps none.
  explicit Shelf(tensorflow::WorkerEnv* env, Snapshots* snapshots = nullptr) : env_(env), snapshots_(snapshots) {}
  ~Shelf();  // on a thread that may wait
  // Before the first Find: the homes that will call it. They outlive the shelf.
  void SetHomes(reactor::Pool& homes);

  // `request` may be null: *id is kNotHere if the part is not known. *again: what may be done with its runs. Fails if
  // there is no such session.
  TfStatus Place(const std::string& session, const std::string& fingerprint,
                 const tensorflow::RegisterGraphRequest* request, uint64_t* id, Again* again);
  // Whether the session has variables of its own. They can't be kept: the snapshots end.
  bool GiveUpIfIsolated(tensorflow::WorkerSession& session);
  // A part that a session has placed.
  struct Lease {
    PartPtr part;
    std::string name;  // for people
    std::string session;
    AnswersPtr answers;      // of its runs with tickets
    mutable Mark mark = {};  // of its runs; at the home that has found it
  };
  // shared_ptr: a run may outlast the lease.
  using LeasePtr = std::shared_ptr<const Lease>;
  // At one of the homes. Null if it is not known, or not any more.
  LeasePtr Find(uint64_t id);
  // Any thread, like all functions below.
  void Release(const std::string& session);
  // The parts that serve all sessions, each behind its fingerprint, for the server that takes the task: it makes them
  // before their sessions come. Only with snapshots.
  std::vector<std::string> Parts();
  TfStatus MakeAhead(const std::string& piece);
  // Those that no session has placed, and that are not wanted any more by then.
  void ReleaseUnwanted(int64_t now_ns);
  std::set<std::string> Sessions();  // that have placed parts
  // Of the runs of all parts.
  std::vector<AnswersPtr> AllAnswers();
  // Releases sessions that were lost: their masters have been restarted with new incarnations. Returns their names.
  std::vector<std::string> ReleaseEnded();

 private:
  // One part, and its lease by each session.
  struct Placed {
    PartPtr part;
    std::string name;
    std::map<std::string, uint64_t> leases;
    std::string piece;      // see Parts; empty: of one session, or without snapshots
    int64_t wanted_ns = 0;  // how long it stays without a lease
  };
  // The parts that the runs of one home have found.
  struct Reading {
    reactor::Reactor* home = nullptr;
    uint64_t endings = 0;
    std::unordered_map<uint64_t, LeasePtr> leases;
  };
  TfStatus Make(const std::string& fingerprint, const tensorflow::RegisterGraphRequest& request, Part::Owner owner,
                Placed* placed);
  void Keep(const std::string& key, Placed placed) FUSEWIRE_REQUIRES(mutex_);
  uint64_t Join(const std::string& session, const std::string& key, Again* again) FUSEWIRE_REQUIRES(mutex_);

  tensorflow::WorkerEnv* const env_;
  Snapshots* const snapshots_;
  EndThread ends_;  // a part's functions may have work in the task's pool, and their destructors wait for it
  // shared_ptr: the mail that empties one may come after the shelf's end.
  std::vector<std::shared_ptr<Reading>> readings_;
  std::atomic<uint64_t> endings_{0};  // of leases: a reading from before is void
  Mutex mutex_;
  uint64_t last_id_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, Lease> leases_ FUSEWIRE_GUARDED_BY(mutex_);
  std::map<std::string, Placed> parts_ FUSEWIRE_GUARDED_BY(mutex_);  // by session, or nothing, and fingerprint
};

}  // namespace fusewire::tf
