/**
 * Records what the status is decided by in runs of the simulation: `node test/simulation/record-status.ts [NAME …]`. The demo has
 * a recorder of its own.
 */
import { parseArgs } from "node:util";
import type { Status } from "../../functions/shared/contract/status.ts";
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { decide } from "../../functions/show-status/decide.ts";
import type { StatusSnapshot } from "../../functions/show-status/snapshot.ts";
import { guards, writeSnapshot } from "../support/recorded-status.ts";
import { openObserver } from "../support/status-observer.ts";
import type { Actor } from "./actor.ts";
import { type Aim, scenarios } from "./scenarios.ts";
import type { SeedRun } from "./seed.ts";
import { simulate } from "./simulation.ts";

/** How often the process of the recorder observes, in milliseconds of the simulation. */
const everyMs = 1_000;
const mostSeeds = 200;

interface Recording {
  /** Absent: what the seed has drawn. */
  readonly scenario?: string;
  /** Changes the plan further. */
  readonly aim?: Aim;
  /** Called once, when the troubles begin. */
  readonly begin?: (run: SeedRun) => void;
  /** What the process of the recorder reads by. */
  readonly wrap?: (cluster: Cluster) => Cluster;
  /** The first moment for which it is true is recorded. */
  readonly isIt: (status: Status, snapshot: StatusSnapshot) => boolean;
}

const claimsOf = ({ groups }: StatusSnapshot) =>
  groups.flatMap(({ ledger }) => (ledger.kind === "read" ? ledger.claims : []));
const zonesOf = ({ groups }: Status) => groups.flatMap(({ zones }) => zones);
const cellsOf = (status: Status) => zonesOf(status).flatMap(({ cells }) => cells.map(({ cell }) => cell));
const verdictsOf = ({ groups }: Status) => groups.flatMap(({ functions }) => functions);
const reasonsOf = ({ needsPerson }: Status) => needsPerson.map(({ reason }) => reason);
const isAtWork = ({ groups }: Status) => groups.some(({ state }) => state === "working");

const recordings: Readonly<Record<string, Recording>> = {
  "a broken revision": {
    scenario: "broken",
    isIt: (status, { groups }) =>
      isAtWork(status) &&
      verdictsOf(status).length > 0 &&
      groups.some(({ zones }) => zones.some(({ pods }) => pods.some(({ stuck }) => stuck !== undefined))),
  },
  "a user who writes what does not parse": {
    scenario: "frozen-zones",
    begin({ world, namespace }) {
      const [first] = world.store.list("statefulsets", { namespace }).items;
      const annotations = { "rollout-max-unavailable": "<b>many</b>" };
      world.store.patch("statefulsets", { namespace, name: first?.metadata.name ?? "" }, { metadata: { annotations } });
    },
    isIt: (status) => isAtWork(status) && reasonsOf(status).includes("malformed-annotation"),
  },
  "a right that is missing": {
    scenario: "frozen-drains",
    wrap: (cluster) => wrapCluster(cluster, { list: refusing(cluster, "persistentvolumeclaims") }),
    isIt: (status) => isAtWork(status) && status.leftOut.length > 0,
  },
  "an API server that is away": {
    scenario: "parking",
    isIt: (status) => isAtWork(status) && status.unansweredSince !== null && status.leftOut.length > 0,
  },
  "a ledger that cannot be read": {
    aim: (plan) => ({ ...plan, every: { ...plan.every, editLedger: 4_000 } }),
    isIt: (status) => isAtWork(status) && reasonsOf(status).includes("ledger-unreadable"),
  },
  "guards that a person ends": {
    scenario: "suspension",
    isIt: (status) => new Set(status.needsPerson.map(({ guard }) => guard)).size > 2,
  },
  "suspended volumes": {
    scenario: "suspension",
    isIt: ({ volumes }) =>
      [true, false].every((isKept) => volumes?.some(({ removableAt }) => (removableAt === null) === isKept)),
  },
  "a parked process": {
    scenario: "parking",
    isIt: (status, snapshot) =>
      cellsOf(status).includes("claimed") &&
      claimsOf(snapshot).some((claim) => claim.isKnown && claim.kind === "process" && claim.phase === "parked"),
  },
  "processes that restart": {
    scenario: "restarting-together",
    isIt: (_, snapshot) => claimsOf(snapshot).filter(({ kind }) => kind === "process").length > 1,
  },
  "a fence of two groups": {
    scenario: "fencing-shipped",
    isIt: (status, { groups }) =>
      verdictsOf(status).length > 1 &&
      groups.filter(({ ledger }) => ledger.kind === "read" && ledger.claims.some(({ kind }) => kind === "node"))
        .length > 1,
  },
  "claims of this version and of a later one": {
    scenario: "claims",
    isIt: (status, snapshot) =>
      cellsOf(status).includes("reserved") && new Set(claimsOf(snapshot).map(({ isKnown }) => isKnown)).size === 2,
  },
  "zones that are paused": {
    aim: (plan) => ({ ...plan, every: { ...plan.every, pause: 10_000 } }),
    isIt: (status) =>
      isAtWork(status) && zonesOf(status).some(({ paused }) => paused) && cellsOf(status).includes("missing"),
  },
  "groups of two namespaces": {
    scenario: "elsewhere",
    isIt: (status) => isAtWork(status) && new Set(status.groups.map(({ namespace }) => namespace)).size > 1,
  },
};

function refusing(cluster: Cluster, refused: string): Cluster["list"] {
  const list = async (resource: string, query: object) => {
    const message = `${refused} is forbidden: User "sluice" cannot list resource "${refused}"`;
    const refusal = { code: 403, reason: "Forbidden", message, verb: "list", resource } as const;
    if (resource === refused) throw new ClusterError(refusal);
    return cluster.list(resource as "pods", query);
  };
  return list as Cluster["list"];
}

/** A process beside the others that observes the status. */
function viewer(run: SeedRun, { begin, wrap }: Recording, onSnapshot: (snapshot: StatusSnapshot) => void): Actor {
  const role = { name: "viewer", watches: "itself", count: 1, inPeace: "all" } as const;
  return {
    name: "viewer",
    begin: () => begin?.(run),
    roles: [
      {
        ...role,
        open({ cluster, cache }) {
          const observe = openObserver(wrap?.(cluster) ?? cluster, cache);
          const observeForever = async () => {
            for (;;) {
              const snapshot = await observe().catch(noneOf);
              if (snapshot !== undefined) onSnapshot(snapshot);
              await cluster.sleep(everyMs);
            }
          };
          void observeForever();
          return undefined;
        },
      },
    ],
  };
}

function noneOf(error: unknown): undefined {
  if (!(error instanceof ClusterError)) throw error;
}

/** Records a state in the first seed that has it. Undefined: none has it. */
async function record(name: string, recording: Recording): Promise<number | undefined> {
  const { scenario = "", aim = (plan) => plan, isIt } = recording;
  const scene = scenarios[scenario] ?? ((plan) => plan);
  for (let seed = 1; seed <= mostSeeds; seed++) {
    let isFound = false;
    await simulate(seed, {
      ...(scenario === "" && recording.aim === undefined ? {} : { aim: (plan, draw) => aim(scene(plan, draw), draw) }),
      more: (run) => {
        const onSnapshot = (snapshot: StatusSnapshot) => {
          if (isFound || !isIt(decide({ ...snapshot, guards }), snapshot)) return;
          isFound = true;
          writeSnapshot(name.replaceAll(" ", "-"), snapshot);
          run.violate("none", "the state is recorded, and the seed ends");
        };
        return [viewer(run, recording, onSnapshot)];
      },
    });
    if (isFound) return seed;
  }
  return undefined;
}

const { positionals } = parseArgs({ allowPositionals: true });
for (const [name, recording] of Object.entries(recordings)) {
  if (positionals.length > 0 && !positionals.includes(name.replaceAll(" ", "-"))) continue;
  const seed = await record(name, recording);
  console.log(`${name}: ${seed === undefined ? `none of ${mostSeeds} seeds has it` : `seed ${seed}`}`);
  if (seed === undefined) process.exitCode = 1;
}
