/** Restarts by processes of the shipped function, of pods with process managers whose users ask for them at any time. */
import { advanceProcessRestart } from "../../../functions/advance-process-restart/function.ts";
import { decideCall } from "../../../functions/advance-process-restart/process-manager/decide-call.ts";
import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../../functions/shared/contract/reporter.ts";
import type { Delivery } from "../../../functions/shared/http/calls.ts";
import { ClusterError, type ObjectKey } from "../../../functions/shared/kubernetes/cluster.ts";
import { ledgerName } from "../../../functions/shared/ledger/lease-name.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { PodReply } from "../../fake-cluster/pod-http.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import { allocationKey, StandInDatabase } from "../../support/stand-in-database.ts";
import type { Actor } from "../actor.ts";
import type { Checker } from "../checker.ts";
import type { Connection, Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { createSimulatedPods } from "../simulated-pods.ts";
import { RestartsChecker } from "./checker.ts";
import { Files } from "./files.ts";
import { OfFiles } from "./of-files.ts";
import { ParkingUsers } from "./parking-users.ts";
import { phaseKey } from "./raw-claims.ts";
import { mountedOf } from "./secrets.ts";
import { type ProcessJournal, SimulatedManager } from "./simulated-process.ts";
import { TogetherUsers } from "./together-users.ts";

const managed = {
  "sluice.dev/restart-manager": "http://:9844",
  "sluice.dev/restart-manager-secret": "token",
  "sluice.dev/restart-database": "opensearch",
  "sluice.dev/restart-database-url": "http://:9200",
};
/** The stand-in knows nothing of shards, and without its answer nothing is restarted in its turn, or parked. */
const unchecked = { "sluice.dev/restart-unchecked": "database-settled,started-copy,masters-whole,role-elsewhere" };
/** A late message to a pod takes up to so much longer, in milliseconds. */
const lateMs = 40_000;
/**
 * What a user sets after a read that decides a request of ours, and before that request arrives, is lost: in that time, in
 * milliseconds. The answer to the read may be up to 4 s old, and the request may be late.
 */
const underWayMs = lateMs + 5_000;
/** The second copy of a message arrives at most so long after the first one, in milliseconds: three phases take less. */
const againWithinMs = 40_000;
/** How often the schedule of the function comes, in milliseconds. */
const sweepMs = 10_000;

export class Restarts implements Actor {
  readonly name = "restarts";
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  readonly #managers = new Map<string, SimulatedManager>();
  readonly #database: StandInDatabase;
  readonly #checker: RestartsChecker;
  #wanted: string | undefined | "lost";
  #wantedMs = Number.NEGATIVE_INFINITY;
  readonly #files = new Files();
  readonly #together: TogetherUsers;
  readonly #parking: ParkingUsers;
  /** What processes with files in Secrets have besides; undefined in other seeds. */
  readonly #ofFiles: OfFiles | undefined;

  constructor(run: SeedRun) {
    this.#run = run;
    const { world, namespace, group, violate, plan } = run;
    const names = ["a", "b", "c", "d"].flatMap((zone) =>
      Array.from({ length: 12 }, (_, at) => `${group}-${zone}-${at}`),
    );
    this.#database = new StandInDatabase(names);
    const [database, managerOf] = [this.#database, (pod: StoredPod) => this.#managerOf(pod)];
    const wanted = () => this.#wanted;
    const common = { world, namespace, ledger: ledgerName(group), database, managerOf, wanted, violate };
    this.#checker = new RestartsChecker(common);
    const isPlanned = plan.restarts !== undefined;
    const [sets, pods] = [() => this.#sets(), () => this.#pods()];
    const write = (pod: string, phase: string | null) => this.#write(pod, phase);
    this.#together = new TogetherUsers({ run, files: this.#files, sets, pods, managerOf, write });
    this.#parking = new ParkingUsers({ run, pods });
    const claimedSum = (restartId: string, set: string) => this.#checker.claimedSum(restartId, set);
    if (plan.restarts?.isOfFiles === true)
      this.#ofFiles = new OfFiles({ run, database, sets, pods, managerOf, write, claimedSum });
    this.checkers = isPlanned ? [this.#checker, ...(this.#ofFiles?.checkers ?? [])] : [];
    const how = { watches: "itself", inPeace: "new", diesAfterWrite: true } as const;
    const role: Role = { ...how, name: "restarter", count: 2, open: (connection) => this.#open(connection) };
    this.roles = isPlanned ? [role, ...(this.#ofFiles?.roles ?? [])] : [];
  }

  start(): void {
    const { world, namespace, plan } = this.#run;
    if (plan.restarts === undefined) return;
    const { store } = world;
    store.create("secrets", namespace, { metadata: { name: "token" }, data: { token: btoa("secret") } } as never);
    this.#manage();
    this.#ofFiles?.start();
    for (const { spec } of this.#sets()) {
      const service = { clusterIP: "None", publishNotReadyAddresses: true };
      if (store.find("services", { namespace, name: spec.serviceName ?? "" }) === undefined)
        store.create("services", namespace, { metadata: { name: spec.serviceName }, spec: service } as never);
    }
  }

  #manage(): void {
    const { world, namespace, plan } = this.#run;
    const isInTurn = plan.restarts?.isParking === true || this.#ofFiles !== undefined;
    const common = isInTurn ? { ...managed, ...unchecked } : managed;
    for (const { metadata } of this.#sets()) {
      if (metadata.annotations?.["sluice.dev/restart-manager"] === undefined)
        world.annotate(
          { namespace, name: metadata.name },
          { ...common, ...this.#ofFiles?.secrets.annotationsOf(metadata.name) },
        );
    }
  }

  begin(): void {
    if (this.#run.plan.restarts !== undefined) this.#wishAgain();
  }

  /** All files are mended, and what has failed is wanted once more. */
  makePeace(): void {
    if (this.#run.plan.restarts === undefined) return;
    this.#files.mendAll();
    this.#ofFiles?.makePeace();
    this.#mend();
  }

  /** Without any pod nothing answers for the database, and a restart waits until something does. */
  #bringBack(): void {
    const { world, namespace } = this.#run;
    const sets = this.#sets();
    if (sets.some(({ spec }) => spec.replicas > 0)) return;
    for (const { metadata } of sets)
      world.store.patch("statefulsets", { namespace, name: metadata.name }, { spec: { replicas: 1 } });
  }

  #sets(): readonly StoredStatefulSet[] {
    const { world, namespace, group } = this.#run;
    const all = world.store.list("statefulsets", { namespace }).items;
    return all.filter(({ metadata }) => metadata.labels?.["rollout-group"] === group);
  }

  #mend(): void {
    this.#bringBack();
    this.#manage();
    for (const { metadata } of this.#pods()) {
      const { [phaseKey]: phase, "sluice.dev/restart-id": id = "" } = metadata.annotations ?? {};
      const isTogether = id.startsWith("coordinated-");
      // New files take up what has failed, without a person.
      if (phase === "failed" && this.#ofFiles === undefined)
        this.#write(metadata.name, isTogether ? "schedule-coordinated" : "schedule");
    }
    this.#parking.mend();
    if (this.#run.plan.restarts?.isTogether === true) this.#together.mend();
    this.#run.world.timeline.after(20_000, () => this.#mend());
  }

  #pods(): readonly StoredPod[] {
    const { world, namespace, group } = this.#run;
    const own = (name: string) => name.startsWith(`${group}-`);
    return world.store.list("pods", { namespace }).items.filter(({ metadata }) => own(metadata.name));
  }

  #wishAgain(): void {
    const { world, draw, plan, isFaulty } = this.#run;
    world.timeline.after((plan.restarts?.everyMs ?? 0) * draw.between(0.5, 1.5), () => {
      if (!isFaulty()) return;
      this.#wish();
      this.#wishAgain();
    });
  }

  /** What users do: they ask, take back, bring other files and break them, and change the database. */
  #wish(): void {
    const { draw, log, plan } = this.#run;
    const pods = this.#pods();
    if (pods.length === 0) return;
    const pod = draw.pick(pods);
    const { name } = pod.metadata;
    const allocate = () => this.#allocate(draw.pick(["all", "new_primaries", undefined]));
    const alone: readonly (() => void)[] = [
      () => this.#write(name, "schedule"),
      () => this.#write(name, "schedule-rolling"),
      () => this.#write(name, "schedule-rolling"),
      () => this.#write(name, draw.pick(["cancel", null])),
      () => {
        const { sum, text } = this.#files.bring(draw);
        this.#managerOf(pod).mounted = sum;
        log("users", `${name} gets ${text}`);
      },
      allocate,
    ];
    const isTogether = plan.restarts?.isTogether === true;
    const deedsOfAll = isTogether ? [...this.#together.deedsTo(pod), allocate] : alone;
    const deeds = this.#ofFiles === undefined ? deedsOfAll : [...this.#ofFiles.users.deedsTo(pod), allocate];
    const parking = plan.restarts?.isParking === true ? this.#parking.deedsTo(pod, isTogether) : [];
    draw.pick([...deeds, ...parking])();
  }

  #write(name: string, phase: string | null): void {
    const { world, namespace, log } = this.#run;
    world.annotate({ namespace, name }, { [phaseKey]: phase }, "pods");
    log("users", `write ${phase} on ${name}`);
  }

  #allocate(value: string | undefined): void {
    const { persistent } = this.#database;
    if (value === undefined) delete persistent[allocationKey];
    else persistent[allocationKey] = value;
    this.#wanted = value;
    this.#wantedMs = this.#run.world.timeline.nowMs();
    this.#run.log("users", `set allocation to ${value}`);
  }

  #managerOf(pod: StoredPod): SimulatedManager {
    const { world, draw, wrappers, log } = this.#run;
    const { uid, name } = pod.metadata;
    const known = this.#managers.get(uid);
    if (known !== undefined) return known;
    // The process of a pod that is gone is gone as well.
    const noting = (what: string, note: (now: StoredPod) => void) => {
      const now = world.store.find("pods", pod.metadata as ObjectKey);
      if (now?.metadata.uid !== uid) return;
      log("manager", `${name} ${what}`);
      note(now);
    };
    const journal: ProcessJournal = {
      onStop: (call, processId) =>
        noting("stops", (now) => {
          this.#checker.onStop(now, call, processId);
          this.#ofFiles?.checker.onStop(now, call);
        }),
      onStart: (call) => noting("is to start", (now) => this.#checker.onStart(now, call)),
      onStarted: (call, sum) =>
        noting("has started", (now) => {
          this.#checker.onStarted(now, call, sum);
          this.#joinLater(now);
        }),
      onState: () => this.#showReady(pod),
    };
    const decide = wrappers.decideCall ?? decideCall;
    const { secrets } = this.#ofFiles ?? {};
    const isWhole = (sum: string) => (secrets ?? this.#files).isWhole(sum);
    const boots = secrets !== undefined;
    const options = { boots, podUid: uid, timeline: world.timeline, draw, decide, journal, isWhole };
    const mounted = secrets?.sumIn(mountedOf(setNameOf(name))) ?? this.#files.newestOf(setNameOf(name));
    const manager = new SimulatedManager(options, mounted);
    this.#managers.set(uid, manager);
    if (boots) this.#joinLater(pod);
    return manager;
  }

  #joinLater(pod: StoredPod): void {
    const { world, draw } = this.#run;
    const node = this.#database.node(pod.metadata.name);
    const manager = this.#managerOf(pod);
    const { processId } = manager;
    node.isMember = false;
    const join = () => {
      if (this.#managers.get(pod.metadata.uid)?.processId !== processId) return;
      if (this.#ofFiles?.canJoin(pod) === false) {
        world.timeline.after(2_000, join);
        return;
      }
      node.isMember = true;
      this.#checker.onJoined(pod);
    };
    world.timeline.after(draw.between(500, 4_000), join);
  }

  /** The probe sees with some delay whether the process runs. */
  #showReady({ metadata: { name, namespace = "", uid } }: StoredPod): void {
    const { world, draw } = this.#run;
    world.timeline.after(draw.between(200, 3_000), () => {
      if (world.store.find("pods", { namespace, name })?.metadata.uid !== uid) return;
      if (this.#managers.get(uid)?.state === "started") world.kubelet.healPod({ namespace, name });
      else world.kubelet.breakPod({ namespace, name }, "Unready");
    });
  }

  /** Each message that changes something arrives a second time where the plan says so, however late. */
  #arriveAgain(pod: StoredPod, delivery: Delivery): void {
    const { world, namespace, draw, plan } = this.#run;
    if (plan.restarts?.isTwice !== true || delivery.method === "GET") return;
    const { name, uid } = pod.metadata;
    world.timeline.after(draw.between(0, againWithinMs), () => {
      if (world.store.find("pods", { namespace, name })?.metadata.uid === uid) this.#reply(pod, delivery);
    });
  }

  #answer(pod: StoredPod, delivery: Delivery): PodReply {
    this.#arriveAgain(pod, delivery);
    return this.#reply(pod, delivery);
  }

  #reply(pod: StoredPod, delivery: Delivery): PodReply {
    const { draw, isFaulty, plan } = this.#run;
    if (isFaulty() && draw.chance(plan.restarts?.lose ?? 0))
      return draw.pick<PodReply>(["break", "hang", { status: 500 }]);
    const manager = this.#managerOf(pod);
    if (delivery.port !== 9200) return manager.answer(delivery);
    if (!manager.isRunning) return "break";
    const live = new Map(this.#pods().map((one) => [one.metadata.name, this.#managerOf(one).isRunning]));
    for (const node of this.#database.nodes) node.isUp = live.get(node.name) ?? false;
    if (delivery.method === "PUT") this.#noteLost();
    const { method, path, headers, body = "" } = delivery;
    return this.#database.answer(pod.metadata.name, { method, path, headers, body });
  }

  #noteLost(): void {
    const { world, plan } = this.#run;
    const longestMs = underWayMs + (plan.restarts?.isTwice === true ? againWithinMs : 0);
    const isClose = world.timeline.nowMs() - this.#wantedMs < longestMs;
    if (isClose) this.#wanted = "lost";
  }

  #open({ process, cluster, cache, onVerdict }: Connection): undefined {
    const { world, draw, namespace, group, wrappers, plan, isFaulty, onResume, log } = this.#run;
    const { latencyMs } = plan.faults;
    const { lose = 0, late = 0 } = plan.restarts ?? {};
    const simulated = createSimulatedPods({
      ...{ world, draw, process, cluster, onResume },
      faults: () => ({ latencyMs, lateMs, ...(isFaulty() ? { lose, late } : { lose: 0, late: 0 }) }),
      answer: (pod, delivery) => this.#answer(pod, delivery),
    });
    const key = { namespace, group };
    const verdict = (report: Parameters<Connection["onVerdict"]>[1] & { readonly message: string }) => {
      this.#ofFiles?.noteVerdict(report);
      log(process.name, `verdict ${report.guard} ${report.zone}: ${report.message}`);
      onVerdict(key, report);
    };
    const context = {
      cluster: wrappers.cluster?.(cluster) ?? cluster,
      cache,
      protocol: wrappers.protocol?.(protocol) ?? protocol,
      reporter: { ...silentReporter, verdict },
      mode: "act",
      namespaces: undefined,
      memoryOf: createMemory(),
      pods: wrappers.pods?.(simulated) ?? simulated,
    } as const;
    const reconcile = async () => {
      for (;;) {
        let againMs = 1_500;
        try {
          const { pendingActs, requeueAfterMs } = await advanceProcessRestart.reconcile(context, key, { sweep: true });
          await pendingActs;
          if (this.#ofFiles !== undefined) againMs = Math.max(againMs, requeueAfterMs ?? sweepMs);
        } catch (error) {
          if (!(error instanceof ClusterError)) throw error;
        }
        await cluster.sleep(againMs * draw.between(0.5, 1.5));
      }
    };
    void reconcile();
  }
}
