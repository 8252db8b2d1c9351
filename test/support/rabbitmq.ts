/**
 * Pods that answer as RabbitMQ's management plugin does to the question whether a node is critical for a quorum: a real HTTP
 * server for each. A queue has a member on each node, and a node is online a moment after its start, when it is in sync.
 */
import { Ingesters, type PodCall } from "./ingester.ts";

export const rabbitmqPath = "/api/health/checks/node-is-quorum-critical";
export const credentials = { username: "monitor", password: "s3cret" };

export interface RabbitmqOptions {
  /** Number of nodes of each cluster. A cluster is one StatefulSet. */
  readonly nodes: number;
  /** Time from a node's start until its queues are in sync, in milliseconds. */
  readonly syncMs: number;
}

export class Rabbitmq {
  readonly pods: Ingesters;
  /** Nodes that are up, but whose queues have no member online. */
  readonly offline: Set<string>;

  private constructor(pods: Ingesters, offline: Set<string>) {
    this.pods = pods;
    this.offline = offline;
  }

  static async open({ nodes, syncMs }: RabbitmqOptions): Promise<Rabbitmq> {
    const offline = new Set<string>();
    const isOnline = (pod: string): boolean => {
      const life = pods.lives.findLast((one) => one.pod === pod);
      const isRunning = life !== undefined && life.endMs === undefined && Date.now() - life.startMs >= syncMs;
      return isRunning && !offline.has(pod);
    };
    const pods: Ingesters = await Ingesters.open({
      respond: ({ name }, call) => {
        const wrong = refusalOf(call);
        if (wrong !== undefined) return wrong;
        const set = name.replace(/-\d+$/, "");
        const names = Array.from({ length: nodes }, (_, ordinal) => `${set}-${ordinal}`);
        const online = names.filter(isOnline).length;
        // As the server does it: with a bare majority online, a queue is at its minimum and can lose no member.
        if (online > Math.floor(nodes / 2) + 1) return [200, '{"status":"ok"}'];
        const queue = {
          name: "orders",
          readable_name: "queue 'orders' in vhost '/'",
          virtual_host: "/",
          type: "quorum",
        };
        return [
          503,
          JSON.stringify({ status: "failed", reason: "some queues would lose their quorum", queues: [queue] }),
        ];
      },
    });
    return new Rabbitmq(pods, offline);
  }

  /** The annotations that a user writes on the StatefulSet. `secret`: name of the Secret with the user and the password. */
  annotations(secret: string): Readonly<Record<string, string>> {
    return {
      "sluice.dev/health-question": "rabbitmq",
      "sluice.dev/health-url": `http://:${this.pods.port}${rabbitmqPath}`,
      "sluice.dev/health-secret": secret,
    };
  }
}

function refusalOf({ method, path, headers }: PodCall): [number, string] | undefined {
  const { username, password } = credentials;
  const expected = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
  if (headers.authorization !== expected) return [401, '{"error":"not_authorized","reason":"Login failed"}'];
  if (path !== rabbitmqPath) return [404, '{"error":"Object Not Found","reason":"Not Found"}'];
  return method === "GET" ? undefined : [405, ""];
}
