/** A group is scaled down on a real control plane, and its volumes are kept for a while: whatever happens to the processes. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { undoAfterMs } from "../../functions/shared/ledger/claim-kinds.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { killInTurn } from "../support/kill-in-turn.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { SuspensionWitness } from "./suspension-witness.ts";

interface Seen {
  readonly metadata: Metadata;
}

/** A stamp and the age of it are by the API server's clock, as its `Date` header reports it. */
const clockMs = 1_500;
const name = "db";

describe("suspension on a real control plane", { skip: await skipWithoutControlPlane(), concurrency: 2 }, () => {
  let controlPlane: ControlPlane;

  before(async () => {
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
  });

  after(() => controlPlane?.stop());

  /** Runs a test with the group, and adds the group's state to its failure. */
  async function scene(options: SceneOptions, play: (scene: Scene) => Promise<void>): Promise<void> {
    const made = await Scene.set(controlPlane, options);
    try {
      await play(made);
    } catch (error) {
      console.error(await made.describe());
      throw error;
    } finally {
      await made.close();
    }
  }

  test("3 x 4 pods go zone by zone, each volume is kept for 30 s, and a recovered one comes back with its volume claim", async (context) => {
    await scene({ namespace: "calm", pods: 4, durationMs: 30_000 }, async (calm) => {
      await calm.serve(1);
      const from = await auditPosition(controlPlane.auditLog);
      await calm.askAll();
      await calm.recoverOne(context);
      await calm.waitForCollection();
      calm.assertPromises(context);
      const deletions = await calm.assertDeletions(context, from);
      assert.equal(deletions, 11, "each volume claim is deleted once, by one request in the audit log");
    });
  });

  test("the same holds while one of two processes is killed with -9 every second", async (context) => {
    await scene({ namespace: "wild", pods: 2, durationMs: 10_000 }, async (wild) => {
      await wild.serve(2);
      // A process that lives for two seconds takes a ledger for old 41 s after its creation (rule R4).
      await wild.waitForOldLedger();
      const from = await auditPosition(controlPlane.auditLog);
      // A claim whose process was killed before its act is undone after 90 s, by a process that has known it for ten (rule R20).
      // So while one process is killed each second, the other one has to live for longer than that.
      const killing = wild.killInTurn(1_000, 15);
      await wild.askAll();
      await wild.recoverOne(context);
      await wild.waitForCollection();
      context.diagnostic(`${await killing.end()} kills`);
      wild.assertPromises(context);
      await wild.assertDeletions(context, from);
    });
  });
});

interface SceneOptions {
  readonly namespace: string;
  readonly pods: number;
  readonly durationMs: number;
}

class Scene {
  readonly #controlPlane: ControlPlane;
  readonly #api: Api;
  readonly #witness: SuspensionWitness;
  readonly #options: SceneOptions;
  #servers: Server[] = [];
  #recovered: Seen | undefined;
  #askedMs = 0;

  private constructor(controlPlane: ControlPlane, api: Api, witness: SuspensionWitness, options: SceneOptions) {
    this.#controlPlane = controlPlane;
    this.#api = api;
    this.#witness = witness;
    this.#options = options;
  }

  static async set(controlPlane: ControlPlane, options: SceneOptions): Promise<Scene> {
    const { namespace, pods, durationMs } = options;
    const annotations = {
      "sluice.dev/suspend-duration": `${durationMs / 1000}s`,
      "sluice.dev/wait-between-removals": "1s",
    };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200", [ANNOTATIONS.goneAfterMs]: "500" };
    const volumes = ["data"];
    const group = await createGroup(controlPlane, { name, namespace, pods, annotations, podAnnotations, volumes });
    await waitForGroupReady(controlPlane, group);
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-suspension" });
    return new Scene(controlPlane, api, await SuspensionWitness.start(controlPlane, namespace), options);
  }

  async serve(count: number): Promise<void> {
    this.#servers = await Promise.all(Array.from({ length: count }, () => this.#start()));
  }

  #start(): Promise<Server> {
    const { kubeconfig } = this.#controlPlane;
    return Server.start({ kubeconfig, namespace: this.#options.namespace });
  }

  get #claimsPath(): string {
    return `/api/v1/namespaces/${this.#options.namespace}/persistentvolumeclaims`;
  }

  #get(path: string): Promise<Seen | undefined> {
    return this.#api.get<Seen>(path).catch(() => undefined);
  }

  /** Requests the suspension of all volume claims at once, each with the statement that its data is not needed any more. */
  async askAll(): Promise<void> {
    this.#askedMs = Date.now();
    const { items } = await this.#api.get<{ items: Seen[] }>(this.#claimsPath);
    assert.equal(items.length, 3 * this.#options.pods);
    const annotations = { "sluice.dev/suspend": "true", "sluice.dev/drained-at": new Date().toISOString() };
    for (const { metadata } of items)
      await this.#api.patch(`${this.#claimsPath}/${metadata.name}`, { metadata: { annotations } });
  }

  /** The first pod of the first zone, once its volume is suspended. */
  async recoverOne(context: TestContext): Promise<void> {
    const pod = `${name}-zone-a-0`;
    const path = `${this.#claimsPath}/data-${pod}`;
    const suspended = await eventually("its volume suspended", undoAfterMs + 60_000, async () => {
      const claim = await this.#get(path);
      return claim?.metadata.annotations?.["sluice.dev/suspend-state"] === "Suspended" ? claim : undefined;
    });
    this.#recovered = suspended;
    const wantedMs = Date.now();
    await this.#api.patch(path, { metadata: { annotations: { "sluice.dev/recover": "true" } } });
    const podPath = `/api/v1/namespaces/${this.#options.namespace}/pods/${pod}`;
    await eventually("its pod made", 60_000, async () => this.#get(podPath), 20);
    context.diagnostic(`${((Date.now() - wantedMs) / 1000).toFixed(2)} s from recover to the pod's creation`);
    const { metadata } = await eventually("nothing of ours on its volume claim", 60_000, async () => {
      const claim = await this.#get(path);
      const keys = Object.keys(claim?.metadata.annotations ?? {});
      return keys.some((key) => key.startsWith("sluice.dev/")) ? undefined : claim;
    });
    assert.equal(metadata.uid, suspended.metadata.uid, "it is the same volume claim");
    assert.ok(!metadata.finalizers?.includes("sluice.dev/volume-hold"));
    assert.ok(!metadata.labels?.["sluice.dev/suspended"]);
  }

  /** All but the recovered one. */
  async waitForCollection(): Promise<void> {
    await eventually("all volume claims gone but one", 240_000, async () => {
      const { items } = await this.#api.get<{ items: Seen[] }>(this.#claimsPath);
      return items.length === 1 ? true : undefined;
    });
    await eventually("no claim left in the ledger", 120_000, async () => {
      const ledger = await this.#get(this.#ledgerPath);
      return ledger !== undefined && !ledger.metadata.annotations?.["sluice.dev/claims"] ? true : undefined;
    });
  }

  get #ledgerPath(): string {
    return `/apis/coordination.k8s.io/v1/namespaces/${this.#options.namespace}/leases/sluice-${name}`;
  }

  async waitForOldLedger(): Promise<void> {
    await eventually("the ledger old enough for every function", 60_000, async () => {
      const { metadata } = (await this.#get(this.#ledgerPath)) ?? {};
      return Date.now() - Date.parse(metadata?.creationTimestamp ?? "") > 42_000 ? true : undefined;
    });
  }

  killInTurn(everyMs: number, inARow: number): { end(): Promise<number> } {
    return killInTurn(this.#servers, { start: () => this.#start(), everyMs, inARow });
  }

  /**
   * By the API server's own log: no volume claim was deleted before its time was over, from its pod's end and from the moment
   * that stands on it. Resolves to how many deletions there were; those that were refused had read something older.
   */
  async assertDeletions(context: TestContext, from: number): Promise<number> {
    const { namespace, durationMs, pods } = this.#options;
    const ages = new Map<string, number>();
    let refused = 0;
    let deletions = 0;
    for await (const { verb, resource, code, at, ...entry } of readAudit(this.#controlPlane.auditLog, { from })) {
      if (verb !== "delete" || resource !== "persistentvolumeclaims" || entry.namespace !== namespace) continue;
      deletions++;
      const claim = entry.name ?? "";
      // No code, or a 504: the process was killed before the answer, and the claim may be deleted.
      if (code !== 200 && code !== 504 && code !== undefined) {
        assert.ok(code === 404 || code === 409, `${claim}: ${code}`);
        refused++;
        continue;
      }
      const { annotations } = this.#witness.claims.find(({ name: one }) => one === claim) ?? {};
      const ageMs = at - Date.parse(annotations?.["sluice.dev/suspended-at"] ?? "");
      assert.ok(ageMs >= durationMs - clockMs, `${claim} was deleted ${ageMs} ms after its stamp`);
      assert.ok(at - this.goneMs(claim) >= durationMs - clockMs, `${claim} was deleted before its time`);
      ages.set(claim, ageMs);
    }
    const least = Math.min(...ages.values());
    context.diagnostic(`${deletions} deletions, ${refused} refused, the first ${least} ms after its stamp`);
    assert.equal(ages.size, 3 * pods - 1);
    return deletions;
  }

  /** When the pod of a volume claim was gone, by the watch. */
  goneMs(claim: string): number {
    const pods = this.#witness.pods.filter((pod) => claim.endsWith(`-${pod.name}`));
    return Math.max(...pods.map(({ goneMs = Number.POSITIVE_INFINITY }) => goneMs));
  }

  assertPromises(context: TestContext): void {
    const { durationMs, pods } = this.#options;
    assert.deepEqual(this.#witness.together, [], "one zone goes at a time");
    const { ages } = this.#witness;
    assert.equal(ages.size, 3 * pods - 1);
    const least = Math.min(...ages.values());
    context.diagnostic(`volumes were deleted ${(least / 1000).toFixed(1)} s or more after their pods were gone`);
    context.diagnostic(`all in ${((Date.now() - this.#askedMs) / 1000).toFixed(1)} s`);
    assert.ok(least >= durationMs - clockMs, `a volume claim was deleted ${least} ms after its pod was gone`);
    const kept = this.#witness.claims.find(({ goneMs }) => goneMs === undefined);
    assert.equal(kept?.uid, this.#recovered?.metadata.uid, "the recovered claim exists");
    const back = this.#witness.pods.filter((pod) => pod.name === `${name}-zone-a-0`);
    assert.deepEqual([back.length, back.at(-1)?.takenMs], [2, undefined], "its pod went once, and came back once");
  }

  /** Ledger, volume claims and last lines of the logs, which show why a test failed. */
  async describe(): Promise<string> {
    const ledger = await this.#get(this.#ledgerPath);
    const claims = this.#witness.claims.map((claim) => JSON.stringify(claim));
    const logs = this.#servers.flatMap(({ log }) => log.slice(-25).map((line) => JSON.stringify(line)));
    return [JSON.stringify(ledger), ...claims, ...logs].join("\n");
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    await this.#witness.stop();
    await this.#api.close();
  }
}
