// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/snapshots.h"

#include <pthread.h>
#include <algorithm>
#include <map>
#include <utility>

#include <absl/strings/str_cat.h>

#include "fusewire/base/clock.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/snapshot/state_file.h"
#include "fusewire/tf/state/devices.h"

namespace fusewire::tf {
namespace {

constexpr size_t kGenerationsMax = 2;
constexpr int64_t kWarnEveryNs = 60 * kSecondNs;
constexpr double kMiB = 1 << 20;

double SecondsSince(int64_t begun_ns) {
  return static_cast<double>(Clock::Real()->NowNs() - begun_ns) / static_cast<double>(kSecondNs);
}

uint64_t WallMs() { return tensorflow::Env::Default()->NowMicros() / 1000; }

// When each task of this process had its newest snapshot, for those who watch.
class Ages {
 public:
  void Set(const void* task, uint64_t written_ms) {
    MutexLock lock(mutex_);
    written_ms_[task] = written_ms;
  }
  void Forget(const void* task) {
    MutexLock lock(mutex_);
    written_ms_.erase(task);
  }
  uint64_t OldestS() {
    MutexLock lock(mutex_);
    uint64_t oldest_ms = WallMs();
    const uint64_t now_ms = oldest_ms;
    for (const auto& one : written_ms_) oldest_ms = std::min(oldest_ms, one.second);
    return (now_ms - oldest_ms) / 1000;
  }

 private:
  Mutex mutex_;
  std::map<const void*, uint64_t> written_ms_ FUSEWIRE_GUARDED_BY(mutex_);
};

Ages& AllAges() {
  static auto* ages = new Ages;
  return *ages;
}

// Tasks of one process copy one after the other.
Mutex& OneCopies() {
  static auto* mutex = new Mutex;
  return *mutex;
}

std::string ShownPath(const std::string& path) { return absl::StrCat("\"", path, "\""); }

}  // namespace

uint64_t SnapshotAgeS() { return AllAges().OldestS(); }

Snapshots::Snapshots(Options options, const tensorflow::ServerDef& def)
    : options_(std::move(options)),
      task_(absl::StrCat(def.job_name(), ":", def.task_index())),
      folder_(tensorflow::Env::Default(), options_.folder, task_),
      warnings_(kWarnEveryNs) {}

Snapshots::~Snapshots() {
  Stop();
  AllAges().Forget(this);
}

TfStatus Snapshots::Open(Options options, const tensorflow::ServerDef& def, std::unique_ptr<Snapshots>* out) {
  std::unique_ptr<Snapshots> snapshots(new Snapshots(std::move(options), def));
  AllAges().Set(snapshots.get(), WallMs());
  snapshots->Restore(def);
  if (snapshots->devices_ == nullptr) TF_RETURN_IF_ERROR(MakeDevices(def, Incarnations(), &snapshots->devices_));
  *out = std::move(snapshots);
  return TfStatus();
}

// The newest that can be read. Without any, the task begins with nothing.
void Snapshots::Restore(const tensorflow::ServerDef& def) {
  std::vector<uint64_t> generations;
  TfStatus failed = folder_.List(&generations, &last_);
  if (generations.size() > kGenerationsMax) generations.resize(kGenerationsMax);
  for (uint64_t generation : generations) {
    TfStatus restored = RestoreFrom(generation, def);
    if (restored.ok()) {
      // One that can't be read does not count among the two that are kept.
      folder_.KeepOnly(
          std::set<uint64_t>(std::find(generations.begin(), generations.end(), generation), generations.end()));
      return;
    }
    devices_ = nullptr;
    inventory_.Clear();
    clients_.clear();
    failed = restored;
    FUSEWIRE_LOG(kWarn, "%s: its snapshot %llu in %s can't be restored: %s; the one before it is tried", task_.c_str(),
                 static_cast<unsigned long long>(generation), ShownPath(folder_.path()).c_str(),
                 failed.ToString().c_str());
  }
  if (failed.ok()) return;
  FUSEWIRE_LOG(kError,
               "%s: it starts without its variables, because none of its snapshots in %s can be restored: %s; next: "
               "nothing, its workers restore their last checkpoint; see: fusewire explain elastic#snapshots",
               task_.c_str(), ShownPath(folder_.path()).c_str(), failed.ToString().c_str());
}

TfStatus Snapshots::RestoreFrom(uint64_t generation, const tensorflow::ServerDef& def) {
  const int64_t begun_ns = Clock::Real()->NowNs();
  Manifest manifest;
  TF_RETURN_IF_ERROR(folder_.ReadManifest(generation, &manifest));
  if (manifest.task != task_) return absl::InvalidArgumentError(absl::StrCat("it is a snapshot of ", manifest.task));
  if (manifest.cluster != options_.cluster) {
    return absl::InvalidArgumentError(absl::StrCat("it is a snapshot of the cluster \"", manifest.cluster,
                                                   "\", and this is \"", options_.cluster, "\""));
  }
  std::vector<Held> state;
  TF_RETURN_IF_ERROR(ReadState(tensorflow::Env::Default(), folder_.StatePath(generation), manifest, &state));
  TF_RETURN_IF_ERROR(MakeDevices(def, Incarnations(manifest.devices.begin(), manifest.devices.end()), &devices_));
  for (Held& held : state) {
    tensorflow::Device* device = nullptr;
    TF_RETURN_IF_ERROR(devices_->LookupDevice(held.holding.device, &device));
    TfStatus restored = RestoreHolding(device, held.holding, std::move(held.tensors));
    if (!restored.ok()) return TfStatus(restored.code(), absl::StrCat(held.holding.name, ": ", restored.message()));
    inventory_.Add(std::move(held.holding));
  }
  complete_ = generation;
  clients_ = std::move(manifest.clients);
  AllAges().Set(this, manifest.written_ms);
  GlobalCounters().Add(&Counters::snapshots_restored);
  FUSEWIRE_LOG(
      kWarn,
      "%s: it goes on with %zu variables and tables (%.1f MiB) of its snapshot %llu, which is %.1f s old; what "
      "it was given later is lost; reading took %.2f s",
      task_.c_str(), state.size(), static_cast<double>(manifest.bytes) / kMiB,
      static_cast<unsigned long long>(generation),
      static_cast<double>(static_cast<int64_t>(WallMs() - manifest.written_ms)) / 1000, SecondsSince(begun_ns));
  return TfStatus();
}

void Snapshots::Learn(const tensorflow::GraphDef& graph) {
  if (inventory_.Learn(graph)) SayObstacle();
}

void Snapshots::GiveUp(const std::string& obstacle) {
  if (inventory_.SetObstacle(obstacle)) SayObstacle();
}

void Snapshots::SayObstacle() {
  AllAges().Forget(this);
  {
    MutexLock lock(mutex_);  // the thread has looked, and waits, or will look
  }
  changed_.NotifyAll();
  FUSEWIRE_LOG(kWarn,
               "%s: it keeps no snapshots, because it holds %s, which can't be copied; if it is lost, its workers "
               "restore their last checkpoint; see: fusewire explain elastic#snapshots",
               task_.c_str(), inventory_.obstacle().c_str());
}

void Snapshots::Start(Collect collect) {
  collect_ = std::move(collect);
  thread_ = std::thread([this] { Work(); });
}

void Snapshots::Stop() {
  {
    MutexLock lock(mutex_);
    is_closing_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Snapshots::Work() {
  pthread_setname_np(pthread_self(), "fusewire/snap");
  for (;;) {
    const int64_t next_ns = AddNs(Clock::Real()->NowNs(), options_.every_ns);
    {
      MutexLock lock(mutex_);
      while (!is_closing_ && inventory_.obstacle().empty() && changed_.WaitUntil(mutex_, next_ns)) {
      }
      if (is_closing_) return;
      if (!inventory_.obstacle().empty()) break;
    }
    Round();
  }
  // A restart has to be as without snapshots.
  folder_.KeepOnly({});
}

void Snapshots::Round() {
  TfStatus written = Write();
  if (written.ok()) return;
  GlobalCounters().Add(&Counters::snapshots_failed);
  uint64_t suppressed = 0;
  if (!warnings_.Allow(Clock::Real()->NowNs(), &suppressed)) return;
  FUSEWIRE_LOG(
      kWarn,
      "%s: its snapshot can't be written to %s: %s; training goes on, and it is tried again every %.1f s; see: "
      "fusewire explain elastic#snapshots",
      task_.c_str(), ShownPath(folder_.path()).c_str(), written.ToString().c_str(),
      static_cast<double>(options_.every_ns) / static_cast<double>(kSecondNs));
}

TfStatus Snapshots::Write() {
  MutexLock one(OneCopies());
  const int64_t begun_ns = Clock::Real()->NowNs();
  Manifest manifest;
  manifest.task = task_;
  manifest.cluster = options_.cluster;
  manifest.written_ms = WallMs();  // what was written before is in it
  for (const auto& [device, incarnation] : IncarnationsOf(*devices_))
    manifest.devices.emplace_back(device, incarnation);
  uint64_t holdings = 0;
  TF_RETURN_IF_ERROR(CopyState(&manifest, &holdings));
  if (holdings == 0) return TfStatus();
  if (collect_ != nullptr) TF_RETURN_IF_ERROR(collect_(&manifest.clients));
  if (!inventory_.obstacle().empty()) return TfStatus();
  TF_RETURN_IF_ERROR(folder_.WriteManifest(manifest));
  const bool is_first = complete_ == 0;
  folder_.KeepOnly({manifest.generation, std::exchange(complete_, manifest.generation)});
  AllAges().Set(this, manifest.written_ms);
  GlobalCounters().Add(&Counters::snapshots_written);
  GlobalCounters().Add(&Counters::snapshot_bytes, manifest.bytes);
  if (is_first) {
    FUSEWIRE_LOG(kInfo, "%s: its first snapshot has %llu variables and tables (%.1f MiB), and took %.2f s",
                 task_.c_str(), static_cast<unsigned long long>(holdings), static_cast<double>(manifest.bytes) / kMiB,
                 SecondsSince(begun_ns));
  }
  return TfStatus();
}

TfStatus Snapshots::CopyState(Manifest* manifest, uint64_t* holdings) {
  const std::vector<Holding> known = inventory_.holdings();
  if (known.empty()) return TfStatus();
  TF_RETURN_IF_ERROR(folder_.Make());
  manifest->generation = ++last_;
  const std::string path = folder_.StatePath(manifest->generation);
  manifest->file = std::string(tensorflow::io::Basename(path));
  std::unique_ptr<StateWriter> writer;
  TF_RETURN_IF_ERROR(
      StateWriter::Create(tensorflow::Env::Default(), path, EncodeTitle(task_, manifest->generation), &writer));
  TfStatus copied;
  for (const Holding& holding : known) {
    tensorflow::Device* device = nullptr;
    bool has_value = false;
    copied = devices_->LookupDevice(holding.device, &device);
    if (copied.ok()) copied = writer->Add(device, holding, &has_value);
    if (!copied.ok()) break;
    if (has_value) ++*holdings;
  }
  if (copied.ok()) copied = writer->Close();
  manifest->bytes = writer->bytes();
  manifest->crc = writer->crc();
  if (!copied.ok() || *holdings == 0) tensorflow::Env::Default()->DeleteFile(path).IgnoreError();
  return copied;
}

}  // namespace fusewire::tf
