/** Removes each rule of restarts. */
import { sumOfSecret } from "../../../functions/advance-process-restart/files.ts";
import { decideCall } from "../../../functions/advance-process-restart/process-manager/decide-call.ts";
import type { NamedConfig } from "../../../functions/shared/annotations/restart-files.ts";
import type { PodAnswer, PodHttp, PodRequest } from "../../../functions/shared/http/pod-http.ts";
import type { SecretObject } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredLedger } from "../../../functions/shared/ledger/reservation.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { Wrappers } from "../replica.ts";
import { type RemovedRule, wrapCluster, wrapProtocol } from "../rules.ts";
import { collectingFiles, restarting, restartingFiles, restartingLate, restartingTogether } from "./scenarios.ts";
import { mountedOf } from "./secrets.ts";

/** Changes what is sent to pods, and what they answer. */
function rewriting(
  change: (request: PodRequest) => PodRequest,
  read: (answer: PodAnswer, request: PodRequest) => PodAnswer = (answer) => answer,
): Wrappers {
  const pods = (shipped: PodHttp): PodHttp => ({
    send: async (address, request, options) => read(await shipped.send(address, change(request), options), request),
  });
  return { pods };
}

const same = (request: PodRequest): PodRequest => request;

function withoutSum(request: PodRequest): PodRequest {
  if (request.body === undefined || !request.path.startsWith("/es/")) return request;
  return { ...request, body: JSON.stringify({ ...JSON.parse(request.body), configChecksum: undefined }) };
}

function withoutPrevious(request: PodRequest): PodRequest {
  if (request.body === undefined) return request;
  return { ...request, body: request.body.replace(/;previous=\w+/, ";previous=") };
}

/** Any process that is stopped counts as another one that is back. */
function backAtOnce(answer: PodAnswer, { path }: PodRequest): PodAnswer {
  if (path !== "/es/status" || answer.status !== 200) return answer;
  const status = JSON.parse(answer.body);
  if (!["stopped", "stopping", "waiting"].includes(status.state)) return answer;
  return { ...answer, body: JSON.stringify({ ...status, state: "started", processId: "another" }) };
}

/** Each process that was told to stop counts as down. */
function downAtOnce(answer: PodAnswer, { path }: PodRequest): PodAnswer {
  if (path !== "/es/status" || answer.status !== 200) return answer;
  const status = JSON.parse(answer.body);
  if (status.state !== "stopping" || status.lastCommand !== "stop") return answer;
  return { ...answer, body: JSON.stringify({ ...status, state: "stopped", processId: null }) };
}

/** Each expected Secret is read as one whose user wants its processes to restart in their turn, whatever changes. */
const inTurn: Wrappers = wrapCluster((cluster) => ({
  async get(resource, key, options) {
    const object = await cluster.get(resource, key, options);
    if (resource !== "secrets" || !key.name.includes("-files")) return object;
    const { metadata } = object;
    const annotations = { ...metadata.annotations, "sluice.dev/restart-mode": "rolling" };
    return { ...object, metadata: { ...metadata, annotations } };
  },
}));

/** Files count as brought as soon as they stand in the mounted Secret. */
function atOnceThere(): Wrappers {
  const sums = new Map<string, string>();
  const { cluster } = wrapCluster((shipped) => ({
    async get(resource, key, options) {
      const object = await shipped.get(resource, key, options);
      if (resource === "secrets") sums.set(key.name, sumOfSecret(object as SecretObject));
      return object;
    },
  }));
  const pods = (shipped: PodHttp): PodHttp => ({
    send: async (address, request, options) => {
      const answer = await shipped.send(address, request, options);
      const configChecksum = sums.get(mountedOf(setNameOf(address.pod)));
      if (request.path !== "/es/status" || answer.status !== 200 || configChecksum === undefined) return answer;
      return { ...answer, body: JSON.stringify({ ...JSON.parse(answer.body), configChecksum }) };
    },
  });
  return {
    ...(cluster && { cluster }),
    pods,
    decideCall: (call, view) => decideCall(call, { ...view, hasFiles: true }),
  };
}

/** Each Secret that nothing names counts as one that nothing has named for 15 minutes. */
const unnamedForLong: Wrappers = wrapProtocol((protocol) => {
  const aged = (ledger: StoredLedger): StoredLedger => {
    const { namedConfigs: known } = ledger;
    if (known === undefined) return ledger;
    const namedConfigs = [...known].map(([name, config]) => [name, agedConfig(config)] as const);
    return { ...ledger, namedConfigs: new Map(namedConfigs) };
  };
  return {
    readLedger: async (...call) => {
      const ledger = await protocol.readLedger(...call);
      return ledger && aged(ledger);
    },
  };
});

const agedConfig = (config: NamedConfig): NamedConfig =>
  config.unnamedMs === undefined ? config : { ...config, unnamedMs: config.unnamedMs - 900_000 };

export const restartRules: readonly RemovedRule[] = [
  {
    rule: "P-claim-first",
    removed: "the claim before the first call",
    breaks: ["P1", "P4", "Z1", "Z2"],
    aim: (plan) => restarting(plan),
    wrappers: wrapProtocol(() => ({
      writeLedger: async (_cluster, ledger, { seenThrough, ...change }) => ({
        ...ledger,
        ...change,
        settledThrough: Math.max(ledger.settledThrough ?? 0, seenThrough),
      }),
    })),
  },
  {
    rule: "P-epoch",
    removed: "the refusal of a lower epoch: a late call stops the process that came after it",
    breaks: ["P1", "P2", "P4", "L1"],
    aim: (plan) => restartingLate(plan),
    wrappers: {
      decideCall: (call, view) => {
        const isLate = view.last !== undefined && call.epoch < view.last.epoch;
        return decideCall(call, isLate ? { ...view, last: undefined } : view);
      },
    },
  },
  {
    rule: "P-sum",
    removed: "the sum of the files in each call",
    breaks: ["P2"],
    aim: (plan) => restarting(plan),
    wrappers: rewriting(withoutSum),
  },
  {
    rule: "P-files-there",
    removed: "waiting for the files before a stop, and the refusal of a stop without them",
    breaks: ["P2"],
    aim: (plan, draw) => restartingFiles(plan, draw),
    wrappers: atOnceThere(),
  },
  {
    rule: "P-agree",
    removed: "restarting all together where files change what all nodes have in common",
    breaks: ["L1"],
    aim: (plan, draw) => restartingFiles(plan, draw),
    wrappers: inTurn,
  },
  {
    rule: "P-collect",
    removed: "the 15 minutes for which nothing names a Secret with files before it is removed",
    breaks: ["P7"],
    aim: (plan) => collectingFiles(plan),
    wrappers: unnamedForLong,
  },
  {
    rule: "P-marker",
    removed: "the earlier value in the marker of the database",
    breaks: ["P3", "L1"],
    aim: (plan) => restarting(plan),
    wrappers: rewriting(withoutPrevious),
  },
  {
    rule: "P-last-back",
    removed: "waiting until the last process is back",
    breaks: ["P1", "P4", "L1"],
    aim: (plan) => restarting(plan),
    wrappers: rewriting(same, backAtOnce),
  },
  {
    rule: "P-barrier",
    removed: "waiting until all processes of a restart of many are down",
    breaks: ["P1"],
    aim: (plan) => restartingTogether(plan),
    wrappers: rewriting(same, downAtOnce),
  },
];
