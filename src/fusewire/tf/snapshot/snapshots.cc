// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/snapshots.h"

#include <pthread.h>
#include <algorithm>
#include <map>
#include <utility>

#include <absl/strings/str_cat.h>

#include "fusewire/base/clock.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/state/devices.h"

namespace fusewire::tf {
namespace {

// The newest, the one before, and the last whose files are others: one damaged file does not end all of them.
constexpr size_t kManifestsMax = 3;
constexpr size_t kFilesMax = 64;  // of one manifest: so many are read at a restart
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

// It is time for a copy of everything: reading what was written since takes longer than that.
bool IsLong(const std::vector<StateFile>& files) {
  uint64_t bytes = 0;
  for (size_t i = 1; i < files.size(); ++i) bytes += files[i].bytes;
  return files.empty() || files.size() >= kFilesMax || bytes >= files[0].bytes;
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
  TfStatus failed = folder_.List(&generations, &written_.last);
  if (generations.size() > kManifestsMax) generations.resize(kManifestsMax);
  for (uint64_t generation : generations) {
    TfStatus restored = RestoreFrom(generation, def);
    if (restored.ok()) return;
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
  HeldState state;
  uint64_t bytes = 0;
  for (const StateFile& file : manifest.files) {
    bytes += file.bytes;
    TF_RETURN_IF_ERROR(ReadState(tensorflow::Env::Default(), folder_.StatePath(file.generation), task_, file, &state));
  }
  TF_RETURN_IF_ERROR(MakeDevices(def, Incarnations(manifest.devices.begin(), manifest.devices.end()), &devices_));
  for (auto& [holding, tensors] : state) {
    tensorflow::Device* device = nullptr;
    TF_RETURN_IF_ERROR(devices_->LookupDevice(holding.device, &device));
    TfStatus restored = RestoreHolding(device, holding, std::move(tensors));
    if (!restored.ok()) return TfStatus(restored.code(), absl::StrCat(holding.name, ": ", restored.message()));
    inventory_.Add(holding);
  }
  written_.last_chain = Chain{manifest.files, generation, 0};
  folder_.DropAfter(generation);  // newer ones can't be read
  clients_ = std::move(manifest.clients);
  AllAges().Set(this, manifest.written_ms);
  GlobalCounters().Add(&Counters::snapshots_restored);
  FUSEWIRE_LOG(
      kWarn,
      "%s: it goes on with %zu variables and tables (%.1f MiB) of its snapshot %llu, which is %.1f s old; what "
      "it was given later is lost; reading took %.2f s",
      task_.c_str(), state.size(), static_cast<double>(bytes) / kMiB, static_cast<unsigned long long>(generation),
      static_cast<double>(static_cast<int64_t>(WallMs() - manifest.written_ms)) / 1000, SecondsSince(begun_ns));
  return TfStatus();
}

void Snapshots::Learn(const tensorflow::GraphDef& graph, bool is_marked) {
  if (inventory_.Learn(graph, is_marked)) SayObstacle();
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
  folder_.KeepOnly({}, {});
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
  manifest.generation = ++written_.last;
  manifest.written_ms = WallMs();  // what was written before is in it
  for (const auto& [device, incarnation] : IncarnationsOf(*devices_))
    manifest.devices.emplace_back(device, incarnation);
  // Two copies of everything at least, so that one damaged file does not end all.
  const bool is_alone = written_.last_chain.files.empty();
  if (!written_.must_copy_all && !is_alone && !IsLong(written_.chain.files)) manifest.files = written_.chain.files;
  const size_t files_before = manifest.files.size();
  // Until this one is complete: it takes marks of what may be in no other.
  written_.must_copy_all = true;
  TF_RETURN_IF_ERROR(CopyState(&manifest));
  if (manifest.files.empty()) return TfStatus();
  if (collect_ != nullptr) TF_RETURN_IF_ERROR(collect_(&manifest.clients));
  if (!inventory_.obstacle().empty()) return TfStatus();
  TF_RETURN_IF_ERROR(folder_.WriteManifest(manifest));
  const bool is_first = written_.chain.files.empty();
  written_.must_copy_all = false;
  Keep(manifest, /*is_new_chain=*/files_before == 0);
  AllAges().Set(this, manifest.written_ms);
  GlobalCounters().Add(&Counters::snapshots_written);
  if (manifest.files.size() > files_before)
    GlobalCounters().Add(&Counters::snapshot_bytes, manifest.files.back().bytes);
  if (is_first) {
    FUSEWIRE_LOG(kInfo, "%s: its first snapshot has %.1f MiB, and took %.2f s", task_.c_str(),
                 static_cast<double>(manifest.files.back().bytes) / kMiB, SecondsSince(begun_ns));
  }
  return TfStatus();
}

void Snapshots::Keep(const Manifest& manifest, bool is_new_chain) {
  Chain& chain = written_.chain;
  if (is_new_chain && !chain.files.empty()) written_.last_chain = chain;
  chain = Chain{manifest.files, manifest.generation, is_new_chain ? 0 : chain.newest};
  std::set<uint64_t> files;
  for (const Chain* kept : {&written_.chain, &written_.last_chain}) {
    for (const StateFile& file : kept->files) files.insert(file.generation);
  }
  folder_.KeepOnly({chain.newest, chain.before, written_.last_chain.newest}, files);
}

TfStatus Snapshots::CopyState(Manifest* manifest) {
  const bool is_full = manifest->files.empty();
  const auto holdings = inventory_.holdings();
  if (holdings.empty()) return TfStatus();
  TF_RETURN_IF_ERROR(folder_.Make());
  StateFile file;
  file.generation = manifest->generation;
  const std::string path = folder_.StatePath(file.generation);
  file.name = std::string(tensorflow::io::Basename(path));
  std::unique_ptr<StateWriter> writer;
  TF_RETURN_IF_ERROR(
      StateWriter::Create(tensorflow::Env::Default(), path, EncodeTitle(task_, file.generation), &writer));
  uint64_t count = 0;
  TfStatus copied = CopyTo(writer.get(), holdings, is_full, &count);
  if (copied.ok()) copied = writer->Close();
  file.bytes = writer->bytes();
  file.crc = writer->crc();
  if (!copied.ok() || count == 0) {
    tensorflow::Env::Default()->DeleteFile(path).IgnoreError();
  } else {
    manifest->files.push_back(std::move(file));
  }
  return copied;
}

TfStatus Snapshots::CopyTo(StateWriter* writer, const std::vector<std::pair<Holding, WriteMarks*>>& holdings,
                           bool is_full, uint64_t* copied) {
  for (const auto& [holding, marks] : holdings) {
    // Before the copy: what is written during it is copied next time.
    const WriteMarks::Taken taken = marks->Take();
    if (!is_full && taken.empty()) continue;
    tensorflow::Device* device = nullptr;
    TF_RETURN_IF_ERROR(devices_->LookupDevice(holding.device, &device));
    StateWriter::Added added;
    if (is_full || taken.is_whole) {
      TF_RETURN_IF_ERROR(writer->Add(device, holding, &added));
    } else {
      TF_RETURN_IF_ERROR(writer->AddRows(device, holding, taken.rows, &added));
    }
    if (added.has_value) ++*copied;
    if (!added.has_value) marks->Whole();  // no file has it
    if (added.rows > 0) marks->SetRows(added.rows);
  }
  return TfStatus();
}

}  // namespace fusewire::tf
