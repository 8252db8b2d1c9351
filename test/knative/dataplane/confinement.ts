import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { freePort, isFree } from "../../controlplane/ports.ts";
import { type DataPlane, pathOf } from "./assets.ts";

/** Ports by what they are for. */
export type Ports<Purpose extends string> = Readonly<Record<Purpose, number>>;

export interface ConfinementOptions<Purpose extends string> {
  /** The ports that the program listens on and gives no choice about. */
  readonly listens: Ports<Purpose>;
  /** The ports of 127.0.0.1 that it connects to. */
  readonly reaches: readonly number[];
}

export interface Confined<Purpose extends string> {
  readonly command: readonly [string, ...string[]];
  /** Where on 127.0.0.1 its ports are found. */
  readonly ports: Ports<Purpose>;
}

let answer: Promise<boolean> | undefined;

/**
 * Whether this machine gives programs networks of their own: Linux does to root and, mostly, to everybody. Where it does not,
 * only one program with a fixed port runs at a time, so only one function at a time has a queue-proxy.
 */
export function canConfine(dataPlane: DataPlane): Promise<boolean> {
  answer ??= promisify(execFile)(pathOf(dataPlane, "netns"), ["--", "/proc/self/exe"]).then(
    () => true,
    // The program that is run here is netns again, without arguments: it was started when it complains of that.
    ({ stderr }: { stderr?: string }) => stderr?.includes("usage: netns") ?? false,
  );
  return answer;
}

/**
 * How to start a program whose ports are fixed: in a network of its own (netns/main.go), with free ports out here. On a
 * machine that gives none, on its own ports; throws when one of them is taken.
 */
export async function confine<Purpose extends string>(
  dataPlane: DataPlane,
  program: string,
  { listens, reaches }: ConfinementOptions<Purpose>,
): Promise<Confined<Purpose>> {
  const path = pathOf(dataPlane, program);
  const fixed = Object.entries<number>(listens);
  if (!(await canConfine(dataPlane))) {
    const free = await Promise.all(fixed.map(([, port]) => isFree(port)));
    const taken = fixed.flatMap(([, port], index) => (free[index] ? [] : [port]));
    if (taken.length === 0) return { command: [path], ports: listens };
    throw new Error(
      `${program} listens on port ${taken.join(" and ")}, which is taken here, and cannot be told another one. ` +
        "Free it, or let processes have network namespaces: as root, or with user namespaces for everybody.",
    );
  }
  const found: [string, number][] = [];
  for (const [purpose] of fixed) found.push([purpose, await freePort()]);
  const ports = Object.fromEntries(found) as Ports<Purpose>;
  const forwarded = fixed.flatMap(([purpose, inside]) => ["-listen", `${ports[purpose as Purpose]}:${inside}`]);
  const ways = [...new Set(reaches)].flatMap((port) => ["-reach", String(port)]);
  return { command: [pathOf(dataPlane, "netns"), ...forwarded, ...ways, "--", path], ports };
}
