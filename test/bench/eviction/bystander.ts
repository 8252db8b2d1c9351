/** A client of the API server besides the clients of the bench: it reads an object, and measures the requests under way. */
import { setTimeout as delay } from "node:timers/promises";
import { Api, type ApiAccess, ApiError } from "../../controlplane/api.ts";
import { percentile } from "./answers.ts";

export interface BystanderFigures {
  /** Latency of its requests. */
  readonly otherP50Ms: number | undefined;
  readonly otherP99Ms: number | undefined;
  readonly others: number;
  /** Highest `apiserver_current_inflight_requests` of mutating requests. */
  readonly mostUnderWay: number;
  /** Undefined unless the API server has priority and fairness. */
  readonly seats: SeatFigures | undefined;
}

/** Seats of the bystander's priority level, which is the default one. */
export interface SeatFigures {
  /** Seats of the level itself; it may borrow more. */
  readonly own: number;
  /** Highest `apiserver_flowcontrol_current_executing_seats`. */
  readonly mostTaken: number;
  /** Highest `apiserver_flowcontrol_current_inqueue_requests`. */
  readonly mostInQueue: number;
}

/**
 * Members of the administrators' group are exempt from fairness. This user has its rights by a role, and shares as users do.
 */
export const asUser = { "impersonate-user": "bench-user" };

const level = 'priority_level="global-default"';

/** Gives the user of {@link asUser} every right. */
export async function letUser(access: ApiAccess): Promise<void> {
  const api = await Api.open(access, { userAgent: "sluice-test-bystander", connections: 1 });
  const group = "rbac.authorization.k8s.io";
  try {
    await api.post(`/apis/${group}/v1/clusterrolebindings`, {
      apiVersion: `${group}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name: "bench-user" },
      roleRef: { apiGroup: group, kind: "ClusterRole", name: "cluster-admin" },
      subjects: [{ apiGroup: group, kind: "User", name: asUser["impersonate-user"] }],
    });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  } finally {
    await api.close();
  }
}

const askEveryMs = 20;
const scrapeEveryMs = 1_000;

/** Reads one small object fifty times a second while `work` runs, and each second the number of requests under way. */
export async function beside<T>(
  access: ApiAccess,
  namespace: string,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly bystander: BystanderFigures }> {
  await letUser(access);
  const api = await Api.open(access, { userAgent: "sluice-test-bystander", connections: 4 });
  const ended = new AbortController();
  const tookMs: number[] = [];
  const underWay = [0];
  const seats: SeatFigures[] = [];
  const ask = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const askedMs = performance.now();
      const path = `/api/v1/namespaces/${namespace}`;
      const { statusCode, body } = await api.send("GET", path, undefined, undefined, asUser);
      await body.dump();
      if (statusCode !== 200) throw new Error(`GET ${path}: ${statusCode}`);
      tookMs.push(performance.now() - askedMs);
      await delay(askEveryMs, undefined, { signal: ended.signal }).catch(() => {});
    }
  };
  const sample = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const { body } = await api.send("GET", "/metrics");
      const text = await body.text();
      underWay.push(sumOf(text, "apiserver_current_inflight_requests", 'request_kind="mutating"'));
      seats.push(seatsOf(text));
      await delay(scrapeEveryMs, undefined, { signal: ended.signal }).catch(() => {});
    }
  };
  const asking = Promise.all([ask(), sample()]);
  try {
    const result = await work();
    ended.abort();
    await asking;
    return { result, bystander: figuresOf(tookMs, underWay, seats) };
  } finally {
    ended.abort();
    await asking.catch(() => {});
    await api.close();
  }
}

function seatsOf(page: string): SeatFigures {
  const of = (metric: string) => sumOf(page, `apiserver_flowcontrol_${metric}`, level);
  return {
    own: of("nominal_limit_seats"),
    mostTaken: of("current_executing_seats"),
    mostInQueue: of("current_inqueue_requests"),
  };
}

function figuresOf(
  tookMs: readonly number[],
  underWay: readonly number[],
  seats: readonly SeatFigures[],
): BystanderFigures {
  const sorted = tookMs.toSorted((one, other) => one - other);
  return {
    otherP50Ms: percentile(sorted, 0.5),
    otherP99Ms: percentile(sorted, 0.99),
    others: sorted.length,
    mostUnderWay: Math.max(...underWay),
    seats: mostOf(seats),
  };
}

function mostOf(seats: readonly SeatFigures[]): SeatFigures | undefined {
  const most = (of: (one: SeatFigures) => number) => Math.max(0, ...seats.map(of));
  const own = most((one) => one.own);
  if (own === 0) return undefined;
  return { own, mostTaken: most((one) => one.mostTaken), mostInQueue: most((one) => one.mostInQueue) };
}

/** The sum of a metric's series with this label, on a page of Prometheus's text. */
export function sumOf(page: string, metric: string, label: string): number {
  const series = page.split("\n").filter((line) => line.startsWith(`${metric}{`) && line.includes(label));
  return series.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}
