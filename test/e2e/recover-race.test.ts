/**
 * A request to recover a volume races its removal on a real API server, 200 times: one of them wins, and the loser reports it.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, ApiError, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup } from "../controlplane/fixtures.ts";
import { follow } from "../controlplane/follow.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

interface Claim {
  readonly metadata: Metadata;
}

interface VolumeEvent {
  readonly reason: string;
  readonly involvedObject: { readonly uid: string };
}

/** The outcome of one race. `recovered`: the same volume claim, without annotations of Sluice. */
interface Race {
  readonly uid: string;
  /** `late`: the API server took it, under the mark of the removal, which a wish ends until the deletion is sent. */
  readonly wish: "written" | "late" | "refused";
  readonly end: "recovered" | "removed";
}

const namespace = "race";
const sets = 20;
const rounds = 10;
const durationMs = 1_000;
const ours = "sluice.dev/";
const wanted = { [`${ours}recover`]: "true" };

describe("recover against collection", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let watching: Api;
  let server: Server;
  let conflicts = 0;
  /** By uid. Twenty races that read their claim all the time would be most of the API server's work. */
  const known = new Map<string, Claim>();
  const ending = new AbortController();

  before(async () => {
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-recover" });
    watching = await Api.open(controlPlane, { userAgent: "sluice-test-recover", connections: 1 });
    const annotations = { "sluice.dev/suspend-duration": `${durationMs / 1000}s`, "sluice.dev/removal-mode": "All" };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "50", [ANNOTATIONS.goneAfterMs]: "50" };
    for (let n = 0; n < sets; n++) {
      const options = { name: `db${n}`, namespace, zones: 1, pods: 0, volumes: ["data"], annotations, podAnnotations };
      await createGroup(controlPlane, options);
    }
    const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
    const seen = (claim: Claim) => void known.set(claim.metadata.uid, claim);
    const gone = (uid: string) => void known.delete(uid);
    await follow(watching, { path, known, seen, gone }, ending.signal);
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace });
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    await eventually("a ledger for each, old enough to permit a removal", 60_000, async () => {
      const { items } = await api.get<{ items: Claim[] }>(leases);
      const made = items.map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? ""));
      return made.length >= sets && Date.now() - Math.max(...made) > 12_000 ? true : undefined;
    });
  });

  after(async () => {
    await server?.kill();
    ending.abort();
    await watching?.close();
    await api?.close();
    await controlPlane?.stop();
  });

  const claimPath = (n: number) => `/api/v1/namespaces/${namespace}/persistentvolumeclaims/data-db${n}-zone-a-0`;
  const ask = (n: number): Promise<Claim | undefined> => api.get<Claim>(claimPath(n)).catch(gone);
  const isSuspended = ({ metadata }: Claim) => metadata.annotations?.[`${ours}suspend-state`] === "Suspended";

  /** A volume claim of a StatefulSet without pods, and a request to suspend it. */
  async function suspend(n: number): Promise<Claim> {
    await api.patch(`/apis/apps/v1/namespaces/${namespace}/statefulsets/db${n}-zone-a`, { spec: { replicas: 0 } });
    const pod = `/api/v1/namespaces/${namespace}/pods/db${n}-zone-a-0`;
    await eventually("its pod gone", 30_000, async () =>
      (await api.get(pod).catch(gone)) === undefined ? true : undefined,
    );
    const name = `data-db${n}-zone-a-0`;
    const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
    const body = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name }, spec };
    if ((await ask(n)) === undefined) await api.post(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`, body);
    const annotations = { [`${ours}suspend`]: "true", [`${ours}drained-at`]: new Date().toISOString() };
    await api.patch(claimPath(n), { metadata: { annotations } });
    return eventually("it suspended", 60_000, async () =>
      known.values().find((claim) => claim.metadata.name === name && isSuspended(claim)),
    );
  }

  /** As `kubectl sluice recover` writes it: under the revision of a read that shows no removal. */
  async function wish(n: number, uid: string): Promise<Race["wish"]> {
    for (;;) {
      const claim = await ask(n);
      if (claim?.metadata.uid !== uid || !isSuspended(claim) || claim.metadata.deletionTimestamp) return "refused";
      const { resourceVersion } = claim.metadata;
      const body = { metadata: { uid, resourceVersion, annotations: wanted } };
      try {
        await api.patch(claimPath(n), body);
        return "written";
      } catch (error) {
        if (!(error instanceof ApiError && (error.status === 409 || error.status === 404))) throw error;
        conflicts++;
      }
    }
  }

  /** As `kubectl annotate` writes it, whatever the revision is. */
  async function wishBlindly(n: number): Promise<Race["wish"]> {
    const claim = await api.patch<Claim>(claimPath(n), { metadata: { annotations: wanted } }).catch(gone);
    if (claim === undefined) return "refused";
    return isSuspended(claim) && !claim.metadata.deletionTimestamp ? "written" : "late";
  }

  async function race(n: number, afterMs: number, isBlind: boolean): Promise<Race> {
    const { metadata } = await suspend(n);
    const { uid, annotations = {} } = metadata;
    const dueMs = Date.parse(annotations[`${ours}suspended-at`] ?? "") + durationMs;
    // By the clocks of this machine alone: its removal begins some moments after that.
    await delay(Math.max(0, dueMs - Date.now() + afterMs));
    const wished = isBlind ? await wishBlindly(n) : await wish(n, uid);
    const end = await eventually(`the end of ${uid}, whose wish was ${wished}`, 60_000, async () => {
      // It was seen before the request, so that it is gone if it does not exist any more.
      const claim = known.get(uid);
      if (claim === undefined) return "removed" as const;
      const isOurs = Object.keys(claim.metadata.annotations ?? {}).some((key) => key.startsWith(ours));
      return isOurs || claim.metadata.deletionTimestamp ? undefined : ("recovered" as const);
    }).catch(async (error: unknown) => {
      const logged = server.log.filter(({ group }) => group === `db${n}`).slice(-20);
      console.error(JSON.stringify([await ask(n), logged], undefined, 1));
      throw error;
    });
    return { uid, wish: wished, end };
  }

  test("of 200 races each has exactly one winner, and no Event reports a volume as back that is gone", async (context) => {
    const races: Race[] = [];
    // How soon removals begin depends on the machine: if one side wins nearly all, the next requests come later, or sooner.
    let latestMs = 1_500;
    for (let round = 0; round < rounds; round++) {
      const afterMs = (n: number) => ((n + round / rounds) / sets) * latestMs;
      const all = Array.from({ length: sets }, (_, n) => race(n, afterMs(n), (n + round) % 2 === 0));
      const ended = await Promise.all(all);
      races.push(...ended);
      const removed = ended.filter(({ end }) => end === "removed").length;
      if (removed < sets / 4) latestMs *= 1.6;
      else if (removed > (3 * sets) / 4) latestMs /= 1.6;
    }
    context.diagnostic(`wishes came up to ${latestMs.toFixed(0)} ms after the end of the time`);
    const count = (end: Race["end"]) => races.filter((one) => one.end === end).length;
    const wishes = (one: Race["wish"]) => races.filter(({ wish: wished }) => wished === one);
    const counts = (["written", "late", "refused"] as const).map((one) => `${wishes(one).length} ${one}`);
    context.diagnostic(`${count("recovered")} recovered, ${count("removed")} removed`);
    context.diagnostic(`wishes: ${counts.join(", ")}; ${conflicts} of them tried again`);
    assert.equal(races.length, 200);
    const untrue = races.filter(({ wish: wished, end }) => {
      return wished !== "late" && (wished === "written") !== (end === "recovered");
    });
    assert.deepEqual(untrue, [], "a user whose request came in time has the volume, and a refused user has not");
    assert.ok(count("recovered") >= 20 && count("removed") >= 20, "each side wins some races");
    const back = races.filter(({ end }) => end === "recovered").map(({ uid }) => uid);
    const uidsIn = (items: readonly VolumeEvent[], reason: string) =>
      items.filter((event) => event.reason === reason).map(({ involvedObject }) => involvedObject.uid);
    // The last Events come after the changes that they report.
    const items = await eventually("an Event for each that is back", 30_000, async () => {
      const list = await api.get<{ items: VolumeEvent[] }>(`/api/v1/namespaces/${namespace}/events`);
      return uidsIn(list.items, "VolumeRecovered").length >= back.length ? list.items : undefined;
    });
    // A recovered volume claim is in a race again in the next round, under the same uid.
    const recovered = uidsIn(items, "VolumeRecovered");
    assert.deepEqual(recovered.sort(), back.sort(), "each recovered one has one such Event, and no other has");
    const tooLate = uidsIn(items, "RecoverTooLate");
    context.diagnostic(`${tooLate.length} of those that were late were told so`);
    const lost = wishes("late").filter(({ end }) => end === "removed");
    const late = new Set(lost.map(({ uid }) => uid));
    assert.deepEqual(
      tooLate.filter((uid) => !late.has(uid)),
      [],
      "no other user is told that it was too late",
    );
  });
});

function gone(error: unknown): undefined {
  if (error instanceof ApiError && error.status === 404) return undefined;
  throw error;
}
