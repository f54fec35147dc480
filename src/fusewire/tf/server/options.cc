// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>

#include <absl/strings/str_cat.h>

#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/compress/compress_pass.h"
#include "fusewire/tf/fuse/passes.h"
#include "fusewire/tf/server/session.h"
#include "fusewire/tf/star/call/recording.h"

namespace fusewire::tf {
namespace {

bool IsWorker(const std::string& job) { return job == "worker" || job == "chief" || job == "master"; }

// The few hundred KiB that a step sends at once need no request for credit. If there are thousands of windows, their
// common budget makes them smaller.
constexpr uint64_t kWindowBytes = 1 << 20;
// What a server of many workers receives at once stays in the caches of most processors. Their windows are so small
// together that larger messages ask for credit, and take turns (bench/notes/scale.md).
constexpr uint64_t kAtOnceBytes = 2 << 20;
constexpr uint64_t kAllWindowsBytes = 4 << 20, kServerWindowBytesMin = 16 << 10;

// The first of these variables that is set; stores its name in *name.
const char* FirstOf(std::initializer_list<const char*> names, const char** name) {
  for (const char* candidate : names) {
    const char* value = std::getenv(candidate);
    if (value != nullptr && value[0] != '\0') {
      *name = candidate;
      return value;
    }
  }
  return nullptr;
}

std::string Unexpected(const char* name, const std::string& value, const std::string& expected,
                       const std::string& instead) {
  return absl::StrCat(name, " is \"", value, "\": ", expected, " expected; ", instead,
                      "; see: fusewire explain settings#the-table");
}

void WarnOfUnexpected(const char* name, const std::string& value, const std::string& expected,
                      const std::string& instead) {
  FUSEWIRE_LOG(kWarn, "%s", Unexpected(name, value, expected, instead).c_str());
}

int64_t ReadNumber(std::initializer_list<const char*> names, int64_t fallback, int64_t least, int64_t most) {
  const char* name = nullptr;
  const char* value = FirstOf(names, &name);
  if (value == nullptr) return fallback;
  char* end = nullptr;
  long long number = std::strtoll(value, &end, 10);
  if (*end != '\0' || number < least || number > most) {
    WarnOfUnexpected(name, value, absl::StrCat("a number from ", least, " to ", most, " is"),
                     absl::StrCat("the default ", fallback, " holds"));
    return fallback;
  }
  return number;
}

bool ReadSwitch(std::initializer_list<const char*> names, bool fallback) {
  const char* name = nullptr;
  const char* value = FirstOf(names, &name);
  if (value == nullptr) return fallback;
  for (const char* yes : {"1", "true", "True", "TRUE", "yes", "on"}) {
    if (std::strcmp(value, yes) == 0) return true;
  }
  for (const char* no : {"0", "false", "False", "FALSE", "no", "off"}) {
    if (std::strcmp(value, no) == 0) return false;
  }
  WarnOfUnexpected(name, value, "1 or 0 is", absl::StrCat("the default ", fallback ? 1 : 0, " holds"));
  return fallback;
}

std::string ReadText(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

task::TransportChoice ReadWire() {
  std::string value = ReadText("FUSEWIRE_TRANSPORT");
  task::TransportChoice wire = task::TransportChoice::kAuto;
  if (!value.empty() && !task::TransportChoiceOf(value, &wire))
    WarnOfUnexpected("FUSEWIRE_TRANSPORT", value, "auto, tcp, shm or ucx is", "the default auto holds");
  return wire;
}

ListUse ReadListUse() {
  const std::string value = ReadText("FUSEWIRE_WORKER_LIST");
  if (value == "always") return ListUse::kAlways;
  if (value == "never") return ListUse::kNever;
  if (!value.empty() && value != "auto")
    WarnOfUnexpected("FUSEWIRE_WORKER_LIST", value, "auto, always or never is", "the default auto holds");
  return ListUse::kMeasured;
}

// A word that does not name a place: loopback, as without it. Refused: no port.
observe::Place ReadStatusPlace(const std::string& secret) {
  const Result<observe::Place> read = observe::ReadPlace(ReadText("FUSEWIRE_STATUS"), secret);
  if (read.ok()) return read.value();
  FUSEWIRE_LOG(kWarn, "FUSEWIRE_STATUS: %s; see: %s", read.status().ToString().c_str(),
               "fusewire explain seeing#the-status-port");
  observe::Place place;
  place.is_off = read.status().code() == Code::kRefused;
  return place;
}

constexpr size_t kSecretFileBytesMax = 4096;

// Of an open file: its name may refer to another one by now.
Status CheckOwner(const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return Status::Refused("it is not a file").Next("name a file with the secret");
  if (file.st_uid != 0 && file.st_uid != geteuid())
    return Status::Refused("it belongs to another user").Next("make it this user's, or root's");
  if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0) return Status::Refused("others can write it").Next("chmod 400");
  if ((file.st_mode & S_IROTH) != 0) return Status::Refused("others can read it").Next("chmod 400");
  // Kubernetes gives root's file to a group, which is the only way for a pod that is not root to read it.
  if ((file.st_mode & S_IRGRP) != 0 && file.st_uid != 0)
    return Status::Refused("its group can read it").Next("chmod 400");
  return Status::Ok();
}

Result<std::string> ReadFile(const std::string& path) {
  // Without waiting: it may be a pipe.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return Status::FromErrno(Code::kUnavailable, "open", errno).Next("name a file that this user can read");
  struct stat about {};
  Status checked = fstat(file, &about) == 0 ? CheckOwner(about) : Status::FromErrno(Code::kUnavailable, "fstat", errno);
  std::string text(kSecretFileBytesMax + 1, '\0');
  size_t size = 0;
  while (checked.ok() && size < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - size);
    if (got == 0) break;
    if (got > 0) size += static_cast<size_t>(got);
    if (got < 0 && errno != EINTR) checked = Status::FromErrno(Code::kUnavailable, "read", errno);
  }
  close(file);
  if (!checked.ok()) return checked;
  text.resize(size);
  if (size > kSecretFileBytesMax) return Status::Invalid("it has more than 4096 bytes").Next("openssl rand -hex 32");
  if (!text.empty() && text.back() == '\n') text.pop_back();
  // The same in a variable and in C.
  if (text.empty() ||
      !std::all_of(text.begin(), text.end(), [](char letter) { return letter >= ' ' && letter < 0x7f; }))
    return Status::Invalid("it is not one line of ASCII text").Next("openssl rand -hex 32");
  return text;
}

constexpr double kSnapshotEveryS = 10, kSnapshotEverySMin = 0.05, kSnapshotEverySMax = 86400;

Snapshots::Options ReadSnapshots(const std::string& job, const std::string& cluster) {
  Snapshots::Options snapshots;
  snapshots.cluster = cluster;
  if (IsWorker(job) || job == "evaluator") return snapshots;
  snapshots.folder = ReadText("FUSEWIRE_SNAPSHOTS");
  const std::string text = ReadText("FUSEWIRE_SNAPSHOT_EVERY");
  char* end = nullptr;
  double every_s = text.empty() ? kSnapshotEveryS : std::strtod(text.c_str(), &end);
  // Written so that NaN is refused, too.
  if (!text.empty() && (*end != '\0' || !(every_s >= kSnapshotEverySMin && every_s <= kSnapshotEverySMax))) {
    every_s = kSnapshotEveryS;
    WarnOfUnexpected("FUSEWIRE_SNAPSHOT_EVERY", text,
                     absl::StrCat("seconds from ", kSnapshotEverySMin, " to ", kSnapshotEverySMax, " are"),
                     absl::StrCat("the default ", every_s, " holds"));
  }
  snapshots.every_ns = static_cast<int64_t>(every_s * static_cast<double>(kSecondNs));
  return snapshots;
}

constexpr const char* kQueues = "TF_GRPC_WORKER_CACHE_QUEUES";
constexpr const char* kThreads = "TF_GRPC_WORKER_CACHE_THREADS";

bool SetIfUnset(const char* name) {
  if (std::getenv(name) != nullptr) return false;
  setenv(name, "1", 0);
  return true;
}

int64_t ReadSilentNs() { return ReadNumber({"FUSEWIRE_PEER_TIMEOUT"}, 20, 1, 86400) * kSecondNs; }

// By default as long as a peer may be silent: one that was silent for that long is not waited for again.
int64_t ReadRecoveryNs() { return ReadNumber({"FUSEWIRE_RECOVERY"}, ReadSilentNs() / kSecondNs, 0, 86400) * kSecondNs; }

}  // namespace

FewGrpcThreads::FewGrpcThreads() : set_queues_(SetIfUnset(kQueues)), set_threads_(SetIfUnset(kThreads)) {}

FewGrpcThreads::~FewGrpcThreads() {
  if (set_queues_) unsetenv(kQueues);
  if (set_threads_) unsetenv(kThreads);
}

void FewGrpcThreads::Keep() {
  SetIfUnset(kQueues);
  SetIfUnset(kThreads);
}

void CopyEagerTensorsOverTheDataPort() {
  // The second is read by newer versions, once in a process.
  for (const char* name : {"TF_EAGER_REMOTE_USE_SEND_TENSOR_RPC", "TF_SEND_AS_PROTOS_WHEN_POSSIBLE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::strcmp(value, "0") == 0) continue;
    if (value != nullptr && std::strcmp(value, "false") != 0 && std::strcmp(value, "False") != 0) {
      FUSEWIRE_LOG(kWarn,
                   "%s is \"%s\", but FUSEWIRE_TLS_CERT is set: 0 is used, as it would send tensors over gRPC, which "
                   "does not encrypt them; see: fusewire explain trust#tensorflow-2",
                   name, value);
    }
    setenv(name, "0", 1);
  }
}

bool IsOurs(const std::string& protocol) { return protocol == "grpc++" || StarModeOf(protocol) != StarMode::kOff; }

StarMode StarModeOf(const std::string& protocol) {
  if (protocol == "star_server") return StarMode::kFull;
  if (protocol == "star_server_lite") return StarMode::kLite;
  return StarMode::kOff;
}

int CountWorkers(const tensorflow::ClusterDef& cluster) {
  int count = 0;
  for (const tensorflow::JobDef& job : cluster.job()) count += IsWorker(job.name()) ? job.tasks_size() : 0;
  return count;
}

ServerSettings ReadSettings(const std::string& job, int workers) {
  ServerSettings settings;
  settings.pipe.window_bytes = kWindowBytes;
  // As in our predecessor, the variables for workers also apply to chiefs, the others to all other jobs.
  const bool is_worker = IsWorker(job);
  settings.disabled = ReadSwitch({"FUSEWIRE_DISABLE"}, false);
  settings.lists = ReadListUse();
  settings.merge_parts = ReadSwitch({"TF_ENABLE_PS_GRAPH_FUSION"}, true);
  if (is_worker) {
    settings.pool.reactors =
        static_cast<int>(ReadNumber({"FUSEWIRE_WORKER_REACTORS", "NETWORK_WORKER_CORE_NUMBER"}, 0, 0, 1024));
    settings.pool.busy_poll = ReadSwitch({"WORKER_ENABLE_POLLING"}, false);
    settings.pool.pin = !ReadSwitch({"WORKER_DISABLE_PIN_CORES"}, true);
  } else {
    settings.pipe.receive_at_once_bytes = kAtOnceBytes;
    settings.pipe.window_bytes =
        std::clamp(kAllWindowsBytes / static_cast<uint64_t>(std::max(workers, 1)), kServerWindowBytesMin, kWindowBytes);
    settings.pool.reactors =
        static_cast<int>(ReadNumber({"FUSEWIRE_PS_REACTORS", "NETWORK_PS_CORE_NUMBER"}, 0, 0, 1024));
    settings.pool.busy_poll = ReadSwitch({"PS_ENABLE_POLLING"}, false);
    settings.pool.pin = !ReadSwitch({"PS_DISABLE_PIN_CORES"}, true);
  }
  settings.pool.name = "fusewire-" + job;
  settings.wire = ReadWire();
  settings.patience_ns = ReadNumber({"NETWORK_MAX_CONNECTION_TIMEOUT"}, 0, 0, 86400000) * kMillisecondNs;
  settings.pipe.silent_ns_max = ReadSilentNs();
  settings.recovery_ns = ReadRecoveryNs();
  std::string cluster = ReadText("FUSEWIRE_CLUSTER");
  if (!cluster.empty()) settings.pipe.cluster = cluster;
  Result<std::string> secret = ReadSecret(ReadText("FUSEWIRE_SECRET"), ReadText("FUSEWIRE_SECRET_FILE"));
  settings.secret = secret.ok() ? Status::Ok() : secret.status();
  if (secret.ok()) settings.pipe.secret = std::move(secret).value();
  settings.protection.tls = {ReadText("FUSEWIRE_TLS_CERT"), ReadText("FUSEWIRE_TLS_KEY"), ReadText("FUSEWIRE_TLS_CA"),
                             ReadText("FUSEWIRE_TLS_NAME")};
  settings.protection.checksums = ReadSwitch({"FUSEWIRE_CHECKSUM"}, false);
  settings.snapshots = ReadSnapshots(job, settings.pipe.cluster);
  settings.is_elastic = !ReadText("FUSEWIRE_SNAPSHOTS").empty();
  settings.network = {ReadText("FUSEWIRE_BIND"), ReadText("FUSEWIRE_PORTS"), ReadText("FUSEWIRE_ADVERTISE")};
  settings.tasks = ReadText("FUSEWIRE_TASKS");
  const std::string on_served = ReadText("FUSEWIRE_ON_SERVED");
  settings.moves_here = on_served == "move";
  if (!settings.moves_here && !on_served.empty() && on_served != "leave")
    WarnOfUnexpected("FUSEWIRE_ON_SERVED", on_served, "leave or move is", "leave holds");
  settings.drain_ns = ReadNumber({"FUSEWIRE_DRAIN"}, 0, 0, 86400) * kSecondNs;
  settings.endpoints = ReadEndpointMap(ReadText("TF_SEASTAR_ENDPOINT_MAP_PATH"));
  settings.status = ReadStatusPlace(settings.pipe.secret);
  settings.runtime_folder = ReadText("XDG_RUNTIME_DIR");
  return settings;
}

namespace {
struct Warned {
  Mutex mutex;
  std::set<std::string> words FUSEWIRE_GUARDED_BY(mutex);
};

// Once in a process: these settings are read when the plug-in is loaded, and again by every server.
void WarnOnce(const std::string& words) {
  static auto* const warned = new Warned;
  MutexLock lock(warned->mutex);
  if (warned->words.insert(words).second) FUSEWIRE_LOG(kWarn, "%s", words.c_str());
}

void ReadLogLevel() {
  const std::string level = ReadText("FUSEWIRE_LOG");
  if (level == "debug") return SetLogLevel(LogLevel::kDebug);
  if (level == "info") return SetLogLevel(LogLevel::kInfo);
  if (level == "warn") return SetLogLevel(LogLevel::kWarn);
  if (level == "error") return SetLogLevel(LogLevel::kError);
  if (level == "off") return SetLogLevel(LogLevel::kOff);
  if (level.empty()) return;
  WarnOnce(Unexpected("FUSEWIRE_LOG", level, "off, error, warn, info or debug is", "the default warn holds"));
}

CompressOptions ReadCompression() {
  CompressOptions options;
  options.unique_ids = ReadSwitch({"FUSEWIRE_UNIQUE_IDS"}, false);
  options.staleness = ReadNumber({"FUSEWIRE_STALENESS"}, 0, 0, 1000000);
  const std::string compression = ReadText("FUSEWIRE_COMPRESSION");
  if (!options.ReadCompression(compression).ok())
    WarnOnce(Unexpected("FUSEWIRE_COMPRESSION", compression, "bf16, int8 or off is",
                        "nothing is compressed; next: set one of these, or unset it"));
  options.ReadTables(ReadText("FUSEWIRE_COMPRESSED_TABLES"));
  return options;
}
}  // namespace

void ReadProcessSettings() {
  ReadLogLevel();
  SetFuseByDefault(ReadSwitch({"FUSEWIRE_TENSOR_FUSE"}, false));
  SetCompressByDefault(ReadCompression());
  RepeatSteps(ReadSwitch({"FUSEWIRE_REPEAT_STEPS"}, false) ? ReadRecoveryNs() : 0);
  RecordTo(ReadText("FUSEWIRE_STAR_RECORD"));
}

Result<std::string> ReadSecret(const std::string& word, const std::string& file) {
  if (file.empty()) return word;
  if (!word.empty()) {
    return Status::Invalid("FUSEWIRE_SECRET and FUSEWIRE_SECRET_FILE are both set").Next("unset one of them");
  }
  Result<std::string> read = ReadFile(file);
  if (read.ok()) return read;
  return Status(read.status().code(), "FUSEWIRE_SECRET_FILE, " + file + ": " + read.status().cause())
      .Next(read.status().next());
}

}  // namespace fusewire::tf
