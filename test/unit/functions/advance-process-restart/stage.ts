/** A group whose pods have process managers, as the specification of their calls says: a stand-in without processes. */
import assert from "node:assert/strict";
import { advanceProcessRestart } from "../../../../functions/advance-process-restart/function.ts";
import type { Delivery } from "../../../../functions/shared/http/calls.ts";
import type { KnownClaim } from "../../../../functions/shared/ledger/claim.ts";
import type { StoredPod } from "../../../fake-cluster/objects.ts";
import { createWorldPodHttp, type PodReply } from "../../../fake-cluster/pod-http.ts";
import { Harness, key, namespace, played } from "../../shared/reconcile/harness.ts";

export const phaseKey = "elasticsearch.k8s.elastic.co/restart-phase";
export const idKey = "sluice.dev/restart-id";
export const sumOf = (version: number): string => `1:${String(version).padStart(64, "0")}`;

/** The process manager of one pod. */
export class Manager {
  state = "started";
  starts = 1;
  attempts = 0;
  mounted = sumOf(1);
  running = sumOf(1);
  last:
    | { readonly verb: string; readonly epoch: number; readonly restartId: string; readonly sum?: string }
    | undefined;
  /** False for a process that ignores TERM. */
  ends = true;
  /** False for a process that does not start. */
  isWhole = true;
  /** `VERB EPOCH: STATUS`, in the order of the calls. */
  readonly calls: string[] = [];
  readonly #podUid: string;

  constructor(podUid: string) {
    this.#podUid = podUid;
  }

  answer({ method, path, headers, body }: Delivery): PodReply {
    if (headers.authorization !== "Bearer secret") return { status: 401, body: '{"message":"wrong token"}' };
    if (method === "GET") return this.#reply(200);
    const call = JSON.parse(body ?? "{}");
    const { podUid, restartId, epoch, configChecksum: sum } = call;
    const verb = path.replace("/es/", "");
    const status = this.#statusOf(verb, podUid, restartId, epoch, sum);
    this.calls.push(`${verb} ${epoch}: ${status}`);
    return this.#reply(status);
  }

  /** What the runner does within a second. */
  work(): void {
    if ((this.state === "stopping" && this.ends) || this.state === "killing")
      this.state = this.state === "killing" ? "killed" : "stopped";
    else if (this.state === "starting" || this.state === "startFailed") {
      this.attempts++;
      this.state = this.isWhole ? "started" : "startFailed";
      if (!this.isWhole) return;
      this.starts++;
      this.running = this.last?.sum ?? this.running;
    }
  }

  #statusOf(verb: string, podUid: string, restartId: string, epoch: number, sum: string | undefined): number {
    const lastEpoch = this.last?.epoch ?? 0;
    if (podUid !== this.#podUid || epoch < lastEpoch) return 409;
    if (epoch === lastEpoch) return this.last?.verb === verb && this.last.restartId === restartId ? 202 : 409;
    const isRunning = this.state === "started";
    if (verb === "start" && this.state === "stopping") return 409;
    if (verb === "stop" && sum !== undefined && sum !== this.mounted) return 412;
    this.last = { verb, epoch, restartId, ...(sum === undefined ? {} : { sum }) };
    if (verb === "stop" && this.state !== "stopped") this.state = "stopping";
    if (verb === "kill") this.state = "killing";
    if (verb === "start" && !isRunning) {
      this.attempts = 0;
      this.state = "starting";
    }
    return 202;
  }

  #reply(status: number): PodReply {
    const body = JSON.stringify({
      ...{ podUid: this.#podUid, state: this.state, attempts: this.attempts, configChecksum: this.mounted },
      processId: this.state === "started" ? `7 ${this.starts}` : null,
      ...{ lastEpoch: this.last?.epoch ?? null, restartId: this.last?.restartId ?? null },
      lastCommand: this.last?.verb ?? null,
      stagedChecksum: this.last?.sum ?? null,
      runningChecksum: this.running,
    });
    return { status, body };
  }
}

export class RestartStage extends Harness {
  readonly managers = new Map<string, Manager>();
  /** The pods whose process manager does not answer. */
  readonly silent = new Set<string>();

  constructor(annotations: Readonly<Record<string, string>> = {}, replicas = 3) {
    super({ zones: ["a"], replicas });
    const usual = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" };
    this.world.annotate(
      { namespace, name: "group-a" },
      { ...usual, "sluice.dev/restart-database": "none", ...annotations },
    );
    this.world.store.create("secrets", namespace, {
      metadata: { name: "token" },
      data: { token: btoa("secret") },
    } as never);
    this.world.store.create("services", namespace, this.service);
    this.anew();
  }

  /** The governing Service of the group. */
  get service(): never {
    return { metadata: { name: "group" }, spec: { clusterIP: "None", publishNotReadyAddresses: true } } as never;
  }

  /** Another process of the function, with an empty memory. */
  anew(): void {
    const answer = (pod: StoredPod, delivery: Delivery): PodReply => this.answer(pod, delivery);
    this.restart({ pods: createWorldPodHttp({ world: this.world, clock: this.cluster, answer }) });
  }

  /** What a pod answers. */
  answer({ metadata }: StoredPod, delivery: Delivery): PodReply {
    return this.silent.has(metadata.name) ? "break" : this.managerOf(metadata.uid).answer(delivery);
  }

  managerOf(uid: string): Manager {
    const manager = this.managers.get(uid) ?? new Manager(uid);
    this.managers.set(uid, manager);
    return manager;
  }

  manager(name: string): Manager {
    return this.managerOf(this.pod(name).metadata.uid);
  }

  pod(name: string): StoredPod {
    return this.world.store.find("pods", { namespace, name }) ?? assert.fail(`no pod ${name}`);
  }

  phaseOf(name: string): string | undefined {
    return this.pod(name).metadata.annotations?.[phaseKey];
  }

  get phaseOfAll(): string | undefined {
    const found = this.world.store.find("statefulsets", { namespace, name: "group-a" });
    return found?.metadata.annotations?.[phaseKey];
  }

  /** Writes the phase on the StatefulSet. */
  writeToAll(phase: string | null): void {
    this.world.annotate({ namespace, name: "group-a" }, { [phaseKey]: phase });
  }

  write(name: string, phase: string | null): void {
    this.world.annotate({ namespace, name }, { [phaseKey]: phase }, "pods");
  }

  get claims(): readonly KnownClaim[] {
    return this.ledger.claims as readonly KnownClaim[];
  }

  /** One reconcile with its acts, and then a second in which the runners work. */
  async step(): Promise<void> {
    const outcome = await played(this.timeline, advanceProcessRestart.reconcile(this.context, key, { sweep: true }));
    if (outcome.pendingActs !== undefined) await played(this.timeline, outcome.pendingActs);
    for (const manager of this.managers.values()) manager.work();
    await this.goOn(1_000);
  }

  /** Steps until a condition holds. Fails after so many. */
  async until(what: string, isReached: () => boolean, most = 40): Promise<void> {
    for (let steps = 0; !isReached(); steps++) {
      assert.ok(steps < most, `${what} is not reached: ${this.guard}, ${this.claims.map(({ line }) => line)}`);
      await this.step();
    }
  }

  /** A ledger that may permit something (rule R4). */
  async begun(): Promise<this> {
    await this.step();
    await this.goOn(11_000);
    this.forget();
    return this;
  }
}
