// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/snapshots.h"

#include <pthread.h>
#include <algorithm>
#include <map>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/state/devices.h"

namespace fusewire::tf {
namespace {

// The newest, the one before, and the last whose files are others: one damaged file does not end all of them.
constexpr size_t kManifestsMax = 3;
constexpr size_t kFilesMax = 64;  // of one manifest: so many are read at a restart
constexpr int64_t kWarnEveryNs = 60 * kSecondNs;
constexpr int64_t kSuccessorNs = 3 * kSecondNs;   // how long an owner that has closed waits for the next one
constexpr int64_t kLookEveryNs = 10 * kSecondNs;  // whether it still has the task, however rare its snapshots are
constexpr double kMiB = 1 << 20;

double SecondsSince(int64_t begun_ns) {
  return static_cast<double>(Clock::Real()->NowNs() - begun_ns) / static_cast<double>(kSecondNs);
}

uint64_t WallMs() { return tensorflow::Env::Default()->NowMicros() / 1000; }

// When each task of this process had its newest snapshot, for the status port.
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

// Of a higher epoch, or of the same and written later.
bool IsLater(const FolderFile& file, const FolderFile& than) {
  if (file.tenure != than.tenure) return than.tenure < file.tenure;
  return file.generation > than.generation;
}

std::string NameIn(const tensorflow::ServerDef& def) { return absl::StrCat(def.job_name(), ":", def.task_index()); }

std::string ShownPath(const std::string& path) { return absl::StrCat("\"", path, "\""); }

}  // namespace

uint64_t SnapshotAgeS() { return AllAges().OldestS(); }

Snapshots::Snapshots(Options options, const tensorflow::ServerDef& def, Claim claim)
    : options_(std::move(options)),
      folder_(tensorflow::Env::Default(), options_.folder, NameIn(def)),
      ownership_(folder_, NameIn(def), options_.cluster, std::move(claim)),
      warnings_(kWarnEveryNs) {}

Snapshots::~Snapshots() {
  Stop();
  AllAges().Forget(this);
}

void Snapshots::Stop() {
  departures_.Close();
  {
    MutexLock lock(mutex_);
    is_closing_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

TfStatus Snapshots::Open(Options options, const tensorflow::ServerDef& def, std::unique_ptr<Snapshots>* out,
                         Claim claim) {
  std::unique_ptr<Snapshots> snapshots(new Snapshots(std::move(options), def, std::move(claim)));
  const TfStatus claimed = snapshots->ownership_.DoClaim();
  if (!claimed.ok()) {
    FUSEWIRE_LOG(kWarn,
                 "%s: it can't say in %s that it has this task: %s; it goes on, and keeps no snapshots until it can; "
                 "another server of this task may be at work; see: fusewire explain elastic#who-owns-a-task",
                 snapshots->task().c_str(), ShownPath(snapshots->folder_.path()).c_str(), claimed.ToString().c_str());
  }
  if (snapshots->ownership_.state() != Ownership::State::kElsewhere) {
    AllAges().Set(snapshots.get(), WallMs());
    snapshots->Restore(def);
    if (snapshots->devices_ == nullptr) TF_RETURN_IF_ERROR(MakeDevices(def, Incarnations(), &snapshots->devices_));
  } else if (snapshots->ownership_.claim().predecessor != nullptr) {
    TF_RETURN_IF_ERROR(snapshots->Follow(def));
  }
  *out = std::move(snapshots);
  return TfStatus();
}

const Owner& Snapshots::owner() const { return is_elsewhere() ? ownership_.other() : ownership_.own(); }

void Snapshots::SetAddress(const std::string& address) {
  const TfStatus set = ownership_.SetAddress(address);
  if (set.ok()) return;
  FUSEWIRE_LOG(kWarn,
               "%s: it can't say in %s that it is served at %s: %s; training goes on, but a second server of this task "
               "would not ask this one before it takes over; see: fusewire explain elastic#who-owns-a-task",
               task().c_str(), ShownPath(folder_.path()).c_str(), address.c_str(), set.ToString().c_str());
}

// The newest of the highest epoch that can be read. Without any, the task begins with nothing.
void Snapshots::Restore(const tensorflow::ServerDef& def) {
  std::vector<FolderFile> files;
  TfStatus failed = folder_.List(&files);
  for (const FolderFile& file : files) written_.last = std::max(written_.last, file.generation);
  files.erase(std::remove_if(files.begin(), files.end(),
                             [](const FolderFile& file) { return file.kind != FolderFileKind::kManifest; }),
              files.end());
  std::sort(files.begin(), files.end(), IsLater);
  if (files.size() > kManifestsMax) files.resize(kManifestsMax);
  for (const FolderFile& file : files) {
    TfStatus restored = RestoreFrom(file, def);
    if (restored.ok()) return;
    devices_ = nullptr;
    inventory_.Clear();
    clients_.clear();
    failed = restored;
    FUSEWIRE_LOG(kWarn, "%s: its snapshot %llu in %s can't be restored: %s; the one before it is tried", task().c_str(),
                 static_cast<unsigned long long>(file.generation), ShownPath(folder_.path()).c_str(),
                 failed.ToString().c_str());
  }
  if (failed.ok()) return;
  FUSEWIRE_LOG(kError,
               "%s: it starts without its variables, because none of its snapshots in %s can be restored: %s; next: "
               "nothing, its workers restore their last checkpoint; see: fusewire explain elastic#snapshots",
               task().c_str(), ShownPath(folder_.path()).c_str(), failed.ToString().c_str());
}

TfStatus Snapshots::RestoreFrom(const FolderFile& newest, const tensorflow::ServerDef& def) {
  const int64_t begun_ns = Clock::Real()->NowNs();
  Manifest manifest;
  TF_RETURN_IF_ERROR(folder_.ReadManifest(newest, &manifest));
  if (manifest.task != task()) return absl::InvalidArgumentError(absl::StrCat("it is a snapshot of ", manifest.task));
  if (manifest.cluster != options_.cluster) {
    return absl::InvalidArgumentError(absl::StrCat("it is a snapshot of the cluster \"", manifest.cluster,
                                                   "\", and this is \"", options_.cluster, "\""));
  }
  HeldState state;
  uint64_t bytes = 0;
  for (const StateFile& file : manifest.files) {
    bytes += file.bytes;
    TF_RETURN_IF_ERROR(ReadState(tensorflow::Env::Default(), folder_.PathOf(file.name), task(), file, &state));
  }
  TF_RETURN_IF_ERROR(MakeDevices(def, Incarnations(manifest.devices.begin(), manifest.devices.end()), &devices_));
  for (auto& [holding, value] : state) {
    tensorflow::Device* device = nullptr;
    TF_RETURN_IF_ERROR(devices_->LookupDevice(holding.device, &device));
    TfStatus restored = RestoreHolding(device, holding, std::move(value.tensors), std::move(value.changes));
    if (!restored.ok()) return TfStatus(restored.code(), absl::StrCat(holding.name, ": ", restored.message()));
    inventory_.Add(holding);
  }
  written_.last_chain = Chain{manifest.files, newest.name, ""};
  clients_ = std::move(manifest.clients);
  AllAges().Set(this, manifest.written_ms);
  GlobalCounters().Add(&Counters::snapshots_restored);
  FUSEWIRE_LOG(
      kWarn,
      "%s: it goes on with %zu variables and tables (%.1f MiB) of its snapshot %llu, which is %.1f s old; what "
      "it was given later is lost; reading took %.2f s",
      task().c_str(), state.size(), static_cast<double>(bytes) / kMiB,
      static_cast<unsigned long long>(newest.generation),
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
               task().c_str(), inventory_.obstacle().c_str());
}

TfStatus Snapshots::Follow(const tensorflow::ServerDef& def) {
  const Claim& claim = ownership_.claim();
  const Owner from = ownership_.other();
  arrival_ = std::make_unique<Arrival>(claim.predecessor(from), claim.pause_ns_max);
  TfStatus followed = arrival_->Begin(task(), options_.cluster);
  if (followed.ok()) followed = arrival_->Follow();
  const auto& numbers = arrival_->manifest().devices;
  if (followed.ok()) followed = MakeDevices(def, Incarnations(numbers.begin(), numbers.end()), &devices_);
  if (followed.ok()) followed = arrival_->Restore(devices_.get(), &inventory_);
  if (followed.ok()) return followed;
  devices_ = nullptr;
  return TfStatus(followed.code(),
                  absl::StrCat(task(), " can't move here from ", Shown(from), ": ", followed.message()));
}

TfStatus Snapshots::TakeOver(const std::string& address, std::string* values) {
  FUSEWIRE_CHECK(arrival_ != nullptr);
  TF_RETURN_IF_ERROR(arrival_->Close(devices_.get(), &inventory_));
  std::vector<FolderFile> files;
  if (folder_.List(&files).ok()) {
    for (const FolderFile& file : files) written_.last = std::max(written_.last, file.generation);
  }
  SetAddress(address);
  TF_RETURN_IF_ERROR(ownership_.Succeed(arrival_->tenure()));
  clients_ = arrival_->manifest().clients;
  *values = arrival_->values();
  AllAges().Set(this, WallMs());
  return TfStatus();
}

void Snapshots::Start(Hooks hooks) {
  hooks_ = std::move(hooks);
  if (options_.every_ns == 0) return;
  thread_ = std::thread([this] { Work(); });
  departures_.Open([this] {
    {
      MutexLock lock(mutex_);  // the thread has looked, and waits, or will look
    }
    changed_.NotifyAll();
  });
}

void Snapshots::Work() {
  pthread_setname_np(pthread_self(), "fusewire/snap");
  int64_t round_ns = AddNs(Clock::Real()->NowNs(), options_.every_ns);
  bool has_seen_obstacle = false;
  for (;;) {
    // At once too: reading the last snapshot may have taken long.
    if (ownership_.state() == Ownership::State::kOwner) ownership_.Own().IgnoreError();
    if (ownership_.state() == Ownership::State::kElsewhere) break;
    const int64_t next_ns = std::min(round_ns, AddNs(Clock::Real()->NowNs(), kLookEveryNs));
    {
      MutexLock lock(mutex_);
      const auto has_new = [&] { return !has_seen_obstacle && !inventory_.obstacle().empty(); };
      while (!is_closing_ && !has_new() && departures_.current() == nullptr && changed_.WaitUntil(mutex_, next_ns)) {
      }
      if (is_closing_) return;
      if (const DeparturePtr departure = departures_.current()) {
        lock.Unlock();
        const TfStatus end = Depart(departure.get());
        if (!written_.has_moved)
          FUSEWIRE_LOG(kWarn, "%s: it could not move, and stays here: %s", task().c_str(), end.ToString().c_str());
        departures_.End(departure, end.ok() ? absl::FailedPreconditionError("the move has ended") : end);
        continue;
      }
      if (!has_new() && Clock::Real()->NowNs() < round_ns) continue;
      has_seen_obstacle = !inventory_.obstacle().empty();
    }
    Round();
    round_ns = AddNs(Clock::Real()->NowNs(), options_.every_ns);
  }
  AllAges().Forget(this);
  if (written_.has_moved) {
    FUSEWIRE_LOG(kInfo, "%s: it has moved to %s", task().c_str(), Shown(ownership_.other()).c_str());
    hooks_.yield(ownership_.other(), /*has_moved=*/true);
    for (tensorflow::Device* device : devices_->ListDevices()) device->resource_manager()->Clear();
    return;
  }
  FUSEWIRE_LOG(kError,
               "%s: it stops serving, since another server has taken this task within the last %.1f s: %s (here: epoch "
               "%llu); that one goes on from the last snapshot, and what this one was given later is lost; next: end "
               "this process, unless it has other tasks; see: fusewire explain elastic#who-owns-a-task",
               task().c_str(), SecondsSince(ownership_.seen_ns()), Shown(ownership_.other()).c_str(),
               static_cast<unsigned long long>(ownership_.own().epoch));
  if (hooks_.yield != nullptr) hooks_.yield(ownership_.other(), /*has_moved=*/false);
}

void Snapshots::Round() {
  MutexLock one(OneCopies());
  const bool has_obstacle = !inventory_.obstacle().empty();
  const TfStatus written = has_obstacle ? ownership_.Own() : Write();
  if (has_obstacle && written.ok() && !written_.has_removed_all) {
    // A restart has to be as without snapshots.
    DropAllBut({});
    written_.has_removed_all = true;
  }
  if (written.ok() || ownership_.state() == Ownership::State::kElsewhere) return;
  GlobalCounters().Add(&Counters::snapshots_failed);
  uint64_t suppressed = 0;
  if (!warnings_.Allow(Clock::Real()->NowNs(), &suppressed)) return;
  FUSEWIRE_LOG(
      kWarn,
      "%s: its snapshot can't be written to %s: %s; training goes on, and it is tried again every %.1f s; see: "
      "fusewire explain elastic#snapshots",
      task().c_str(), ShownPath(folder_.path()).c_str(), written.ToString().c_str(),
      static_cast<double>(options_.every_ns) / static_cast<double>(kSecondNs));
}

TfStatus Snapshots::Depart(Departure* departure) {
  written_.must_copy_all = true;  // the taker gets the marks
  MoveWant want = MoveWant::kBegin;
  bool is_first = true;
  while (departure->Await(&want)) {
    if (!inventory_.obstacle().empty())
      return absl::FailedPreconditionError(absl::StrCat("it holds ", inventory_.obstacle(), ", which can't be copied"));
    TF_RETURN_IF_ERROR(ownership_.Check());
    if (want == MoveWant::kClose) return GiveLast(departure);
    if (want == MoveWant::kBegin) {
      std::vector<std::string> pieces = hooks_.parts();
      pieces.insert(pieces.begin(), EncodeManifest(Describe()));
      TF_RETURN_IF_ERROR(departure->Say(MoveSaid::kBegun, std::move(pieces)));
    } else {
      StateWriter writer(departure);
      uint64_t count = 0;
      TF_RETURN_IF_ERROR(CopyTo(&writer, is_first, &count));
      TF_RETURN_IF_ERROR(departure->EndRound(writer.bytes()));
      is_first = false;
    }
  }
  return absl::DeadlineExceededError("the process that takes it is silent");
}

// Once it has closed, another server has the task in the folder, or this one again.
TfStatus Snapshots::GiveLast(Departure* departure) {
  TF_RETURN_IF_ERROR(hooks_.close());
  departure->SetSilence(kSuccessorNs);
  Manifest manifest = Describe();
  StateWriter writer(departure);
  std::string values;
  uint64_t count = 0;
  TfStatus given = CopyTo(&writer, /*is_full=*/false, &count);
  if (given.ok()) given = hooks_.collect(&manifest.clients);
  if (given.ok()) given = hooks_.values(&values);
  if (given.ok())
    given = departure->Say(MoveSaid::kClosed, {EncodeManifest(manifest), std::move(values)}, writer.bytes());
  if (!given.ok()) {
    hooks_.open(ownership_.own().epoch);
    return given;
  }
  const bool is_done = departure->AwaitDone(AddNs(Clock::Real()->NowNs(), kSuccessorNs));
  LogLimiter warnings(kWarnEveryNs);
  while (true) {
    // A server that says that it serves the task is believed, even if its file appears in the folder late.
    const TfStatus claimed = is_done ? ownership_.Check() : ownership_.Reclaim();
    written_.has_moved = ownership_.state() == Ownership::State::kElsewhere;
    if (!is_done && ownership_.state() == Ownership::State::kOwner) {
      hooks_.open(ownership_.own().epoch);
      return absl::DeadlineExceededError("the process that was to take it has not come");
    }
    if (written_.has_moved) return TfStatus();
    // Neither serves until the folder says who has it.
    uint64_t suppressed = 0;
    if (warnings.Allow(Clock::Real()->NowNs(), &suppressed))
      FUSEWIRE_LOG(kWarn, "%s: it runs no steps, because it can't find out whether it has moved: %s", task().c_str(),
                   claimed.ToString().c_str());
    MutexLock lock(mutex_);
    if (!is_closing_) changed_.WaitUntil(mutex_, AddNs(Clock::Real()->NowNs(), kSecondNs / 5));
    if (is_closing_) return absl::CancelledError("it ends");
  }
}

TfStatus Snapshots::Write() {
  const int64_t begun_ns = Clock::Real()->NowNs();
  TF_RETURN_IF_ERROR(ownership_.Own());
  Manifest manifest = Describe();
  manifest.generation = ++written_.last;
  // Two copies of everything at least, so that one damaged file does not end all.
  const bool is_alone = written_.last_chain.files.empty();
  if (!written_.must_copy_all && !is_alone && !IsLong(written_.chain.files)) manifest.files = written_.chain.files;
  const size_t files_before = manifest.files.size();
  // Until this one is complete: it takes marks of what may be in no other.
  written_.must_copy_all = true;
  TF_RETURN_IF_ERROR(CopyState(&manifest));
  if (manifest.files.empty()) return TfStatus();
  if (hooks_.collect != nullptr) TF_RETURN_IF_ERROR(hooks_.collect(&manifest.clients));
  if (!inventory_.obstacle().empty()) return TfStatus();
  TF_RETURN_IF_ERROR(ownership_.Own());
  TF_RETURN_IF_ERROR(folder_.WriteManifest(manifest));
  const bool is_first = written_.chain.files.empty();
  written_.must_copy_all = false;
  DropAllBut(written_.Add(manifest, SnapshotFolder::ManifestName(ownership_.tenure(), manifest.generation),
                          /*is_new_chain=*/files_before == 0));
  AllAges().Set(this, manifest.written_ms);
  GlobalCounters().Add(&Counters::snapshots_written);
  if (manifest.files.size() > files_before)
    GlobalCounters().Add(&Counters::snapshot_bytes, manifest.files.back().bytes);
  if (is_first) {
    FUSEWIRE_LOG(kInfo, "%s: its first snapshot has %.1f MiB, and took %.2f s", task().c_str(),
                 static_cast<double>(manifest.files.back().bytes) / kMiB, SecondsSince(begun_ns));
  }
  return TfStatus();
}

Manifest Snapshots::Describe() const {
  Manifest manifest;
  manifest.task = task();
  manifest.cluster = options_.cluster;
  manifest.epoch = ownership_.tenure().epoch;
  manifest.holder = ownership_.tenure().holder;
  manifest.written_ms = WallMs();  // what was written before is in it
  for (const auto& [device, incarnation] : IncarnationsOf(*devices_))
    manifest.devices.emplace_back(device, incarnation);
  return manifest;
}

std::set<std::string> Snapshots::Written::Add(const Manifest& manifest, const std::string& name, bool is_new_chain) {
  if (is_new_chain && !chain.files.empty()) last_chain = chain;
  chain = Chain{manifest.files, name, is_new_chain ? "" : chain.newest};
  std::set<std::string> names = {chain.newest, chain.before, last_chain.newest};
  for (const Chain* kept : {&chain, &last_chain}) {
    for (const StateFile& file : kept->files) names.insert(file.name);
  }
  return names;
}

void Snapshots::DropAllBut(const std::set<std::string>& names) {
  folder_.Drop(
      ownership_.tenure(),
      [&names](const FolderFile& file) { return file.kind != FolderFileKind::kOwner && names.count(file.name) == 0; },
      [this] { return ownership_.Check().ok(); });
}

TfStatus Snapshots::CopyState(Manifest* manifest) {
  const bool is_full = manifest->files.empty();
  if (inventory_.holdings().empty()) return TfStatus();
  TF_RETURN_IF_ERROR(folder_.Make());
  TF_RETURN_IF_ERROR(ownership_.WriteIfGone());
  StateFile file;
  file.generation = manifest->generation;
  file.name = SnapshotFolder::StateName(ownership_.tenure(), file.generation);
  const std::string path = folder_.PathOf(file.name);
  std::unique_ptr<StateFileSink> sink;
  TF_RETURN_IF_ERROR(StateFileSink::Create(tensorflow::Env::Default(), path, &sink));
  StateWriter writer(sink.get());
  uint64_t count = 0;
  TfStatus copied = writer.AddTitle(EncodeTitle(task(), file.generation));
  if (copied.ok()) copied = CopyTo(&writer, is_full, &count);
  if (copied.ok()) copied = sink->Close();
  file.bytes = writer.bytes();
  file.crc = writer.crc();
  if (!copied.ok() || count == 0) {
    tensorflow::Env::Default()->DeleteFile(path).IgnoreError();
  } else {
    manifest->files.push_back(std::move(file));
  }
  return copied;
}

TfStatus Snapshots::CopyTo(StateWriter* writer, bool is_full, uint64_t* copied) {
  for (const auto& [holding, marks] : inventory_.holdings()) {
    // Before the copy: what is written during it is copied next time.
    const WriteMarks::Taken taken = marks->Take();
    if (!is_full && taken.empty()) continue;
    tensorflow::Device* device = nullptr;
    TF_RETURN_IF_ERROR(devices_->LookupDevice(holding.device, &device));
    StateWriter::Added added;
    if (is_full || taken.is_whole) {
      TF_RETURN_IF_ERROR(writer->Add(device, holding, &added));
    } else if (!taken.keys.empty()) {
      TF_RETURN_IF_ERROR(writer->AddKeys(device, holding, taken.keys, &added));
    } else {
      TF_RETURN_IF_ERROR(writer->AddRows(device, holding, taken.rows, &added));
    }
    if (added.has_value) ++*copied;
    if (!added.has_value) marks->Whole();  // no file has it
    if (added.rows > 0) marks->SetRows(added.rows);
    if (added.has_keys) marks->SetKeys();
  }
  if (is_full) inventory_.SetBytes(writer->bytes());
  return TfStatus();
}

}  // namespace fusewire::tf
