/** A bridge of this machine, to which the played machines are connected by veth pairs. */
import { execFile, execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";

const execute = promisify(execFile);

/** The bridges of this suite have the process id of their owner in the name. */
const bridgeName = /^slb(\d+)$/;
/** Addresses for tests of networks (RFC 2544), of which each owner takes 256. */
const network = (third: number) => `198.18.${third}`;

/** What connects one machine. */
export interface Link {
  /** Sets the far end up or down. While it is down, packets of the machine are lost without a word. */
  set(isUp: boolean): Promise<void>;
  /** Loses the packets to one address of the bridge without a word, or no more. */
  setLost(address: string, isLost: boolean): Promise<void>;
  /** Cuts this and nothing else. */
  setCuts(cuts: Cuts): Promise<void>;
}

/** What is cut of one machine. */
export interface Cuts {
  /** The far end of its link is down: packets are lost without an error, in both directions. */
  readonly isFarEndDown: boolean;
  /** Its own end is down: sending fails at once. */
  readonly isOwnEndDown: boolean;
  /** The addresses to which its packets are lost without an error. */
  readonly lost: readonly string[];
  /** The addresses that it finds unreachable at once. */
  readonly refused: readonly string[];
}

export const noCuts: Cuts = { isFarEndDown: false, isOwnEndDown: false, lost: [], refused: [] };

/** No machine has this card. */
const noCard = "02:00:00:00:00:99";

export class Bridge {
  readonly #name: string;
  readonly #network: string;
  #links = 0;

  private constructor(name: string, third: number) {
    this.#name = name;
    this.#network = network(third);
  }

  /** Removes bridges whose owner was killed, and makes one. Throws if this machine does not allow it. */
  static async create(): Promise<Bridge> {
    const names = (JSON.parse(await ip("-json", "link", "show")) as { ifname: string }[]).map(({ ifname }) => ifname);
    for (const name of names) {
      const owner = bridgeName.exec(name)?.[1];
      if (owner !== undefined && !existsSync(`/proc/${owner}`)) await ip("link", "del", name);
    }
    const taken = await ip("-oneline", "-4", "address", "show");
    const free = Array.from({ length: 256 }, (_, at) => (process.pid + at) % 256).find(
      (third) => !taken.includes(` ${network(third)}.`),
    );
    if (free === undefined) throw new Error("no network is free for a bridge");
    const bridge = new Bridge(`slb${process.pid}`, free);
    // Without an address of its own a bridge takes that of a port, and another one when that machine is reset: the others would
    // send what is for the API server to the old address for half a minute.
    const own = [
      "add",
      bridge.#name,
      "address",
      `02:01:00:00:00:${free.toString(16).padStart(2, "0")}`,
      "type",
      "bridge",
    ];
    await ip("link", ...own);
    await ip("address", "add", `${bridge.address}/24`, "dev", bridge.#name);
    await ip("link", "set", bridge.#name, "up");
    return bridge;
  }

  /** The address of this machine on the bridge. */
  get address(): string {
    return `${this.#network}.1`;
  }

  /** The address of the nth machine, from 1 on. */
  addressOf(nth: number): string {
    return `${this.#network}.${nth + 1}`;
  }

  /** Connects the network namespace of a process. The pair goes when the namespace ends. */
  async connect(pid: number, address: string): Promise<Link> {
    const link = `sl${process.pid}v${++this.#links}`;
    // A card keeps its address over a reset. With another one the answers to the new boot would go to the old one for a while.
    const card = `02:00:${address
      .split(".")
      .map((part) => Number(part).toString(16).padStart(2, "0"))
      .join(":")}`;
    await ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "address", card, "netns", String(pid));
    await ip("link", "set", link, "master", this.#name, "up");
    const inside = `ip address add ${address}/24 dev eth0 && ip link set eth0 up && ip link set lo up`;
    await execute("nsenter", ["--target", String(pid), "--net", "sh", "-ec", inside]);
    const inNetwork = (...args: string[]) => execute("nsenter", ["--target", String(pid), "--net", "ip", ...args]);
    const set = async (isUp: boolean) => void (await ip("link", "set", link, isUp ? "up" : "down"));
    return {
      set,
      setCuts: async (cuts) => {
        await execute("nsenter", ["--target", String(pid), "--net", "sh", "-ec", commandsOf(cuts)]);
        await set(!cuts.isFarEndDown);
      },
      setLost: async (other, isLost) => {
        const lost = ["replace", other, "lladdr", noCard, "dev", "eth0", "nud", "permanent"];
        await inNetwork("neigh", ...(isLost ? lost : ["del", other, "dev", "eth0"]));
      },
    };
  }

  async remove(): Promise<void> {
    await ip("link", "del", this.#name);
  }
}

/** In the namespace of the machine. */
function commandsOf({ isOwnEndDown, lost, refused }: Cuts): string {
  return [
    "ip link set eth0 up",
    "ip neigh flush dev eth0 nud permanent",
    "ip route flush type unreachable",
    ...lost.map((address) => `ip neigh replace ${address} lladdr ${noCard} dev eth0 nud permanent`),
    ...refused.map((address) => `ip route replace unreachable ${address}`),
    ...(isOwnEndDown ? ["ip link set eth0 down"] : []),
  ].join("\n");
}

async function ip(...args: string[]): Promise<string> {
  return (await execute("ip", args)).stdout;
}

/** The namespaces of a played machine. */
export const namespaces = [
  "--pid",
  "--fork",
  "--kill-child=KILL",
  "--mount",
  "--mount-proc",
  "--net",
  "--time",
] as const;

/** True if this machine has no namespaces or bridges for the suites that need them. In CI they fail instead. */
export async function skipWithoutNamespaces(): Promise<boolean> {
  try {
    execFileSync("unshare", [...namespaces, "true"], { stdio: "pipe" });
    execFileSync("nsenter", ["--version"], { stdio: "pipe" });
    await (await Bridge.create()).remove();
    return false;
  } catch (error) {
    const how = "they need Linux, root, util-linux and iproute2";
    const { message } = error as Error;
    if (process.env.CI === "true") throw new Error(`there are no namespaces to test with: ${how}`, { cause: error });
    console.error(`\nSKIPPED: everything that needs played machines, because ${how}: ${message.trim()}\n`);
    return true;
  }
}
