/** A played machine: namespaces of its own, a boot id, a watchdog, and a reset that ends all of its processes at once. */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../controlplane/api.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import { WatchdogHardware } from "./hardware.ts";
import { type Bridge, type Cuts, type Link, namespaces, noCuts } from "./network.ts";

const root = join(import.meta.dirname, "../..");
const kubeletProgram = join(import.meta.dirname, "kubelet-main.ts");
const bootTimeoutMs = 20_000;
const pollMs = 20;

/** What the first process of a machine does: it mounts, says so, and then only lives. */
const firstProcess = `
mount --bind "$1" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o size=1m tmpfs "$2"
: > "$3"
exec sleep 2147483647`;

export interface MachineOptions {
  /** Of its Node. */
  readonly name: string;
  readonly address: string;
  readonly bridge: Bridge;
  /** Folder of its own, where its files are. */
  readonly folder: string;
  /** W, in milliseconds. */
  readonly watchdogMs: number;
  /** The file of the agent that it starts. */
  readonly agentProgram: string;
  /** Settings of its agent, but for those of the machine itself. */
  readonly agent: Readonly<Record<string, string>>;
  /** JSON for its kubelet, as `KubeletSettings`, but for the fields of the machine itself. */
  readonly kubelet: object;
}

/** What ended a boot. */
export type ResetCause = "watchdog" | "reset-file" | "test";

export interface Reset {
  readonly cause: ResetCause;
  readonly bootId: string;
  /** Of `performance.now()`. */
  readonly atMs: number;
}

interface Boot {
  readonly id: string;
  readonly unshare: Launched;
  readonly pid: number;
  readonly link: Link;
  agent: Launched | undefined;
  kubelet: Launched | undefined;
  readonly logs: Launched[];
}

export class Machine {
  readonly name: string;
  /** What its next kubelet reports. Another one is another machine under the same name. */
  systemUuid: string = randomUUID();
  readonly resets: Reset[] = [];
  readonly hardware: WatchdogHardware;
  /** Whether a reset is followed by a boot. Otherwise the machine stays off until `boot`. */
  bootsAgain = true;
  /** Whether its next kubelet reports that it is Ready. */
  isWell = true;
  /** Whether its next agent finds a watchdog. */
  hasWatchdog = true;
  /** False: a write to the reset file does nothing. */
  obeysResetFile = true;
  #cuts = noCuts;
  readonly #options: MachineOptions;
  readonly #poll: NodeJS.Timeout;
  #boot: Boot | undefined;
  /** Resets and boots, one after another. */
  #turn: Promise<void> = Promise.resolve();
  #isClosed = false;
  #logs = "";

  constructor(options: MachineOptions) {
    this.#options = options;
    this.name = options.name;
    mkdirSync(this.#path("run"), { recursive: true });
    execFileSync("mkfifo", [this.#path("watchdog")]);
    writeFileSync(this.resetFile, "");
    this.hardware = new WatchdogHardware(this.#path("watchdog"), options.watchdogMs, () => this.#fired("watchdog"));
    this.#poll = setInterval(() => {
      if (this.obeysResetFile && statSync(this.resetFile).size > 0) this.#fired("reset-file");
    }, pollMs);
  }

  /** Stands in the place of the kernel's own, which would reset the machine that the test runs on. */
  get resetFile(): string {
    return this.#path("reset");
  }

  /** Of the present boot, or of the last one. */
  get bootId(): string {
    return this.#boot?.id ?? this.resets.at(-1)?.bootId ?? "";
  }

  get isOn(): boolean {
    return this.#boot !== undefined;
  }

  /** What its processes have printed, for a test that fails. */
  get log(): string {
    return this.#logs + (this.#boot?.logs ?? []).map(printedBy).join("");
  }

  /** Starts it with a new boot id, and its kubelet and its agent with it. */
  boot(): Promise<void> {
    return this.#then(() => this.#bootNow());
  }

  /** Ends all of its processes at once. */
  async powerOff(): Promise<void> {
    this.bootsAgain = false;
    await this.#then(() => this.#end("test"));
  }

  /** Starts the shipped agent in it. Settings may replace those of the machine. */
  startAgent(settings: Readonly<Record<string, string>> = {}): Launched {
    const boot = this.#running();
    boot.agent = this.#launchIn(boot, [this.#options.agentProgram], { ...this.#agentEnvironment(), ...settings });
    return boot.agent;
  }

  /** The agent that was started last. */
  get agent(): Launched {
    const { agent } = this.#running();
    if (agent === undefined) throw new Error(`${this.name} has no agent`);
    return agent;
  }

  async signalAgent(signal: NodeJS.Signals, agent = this.agent): Promise<Launched> {
    process.kill(await childOf(agent), signal);
    return agent;
  }

  /** SIGSTOP: Kubernetes misses its kubelet, and its agent goes on. */
  async signalKubelet(signal: NodeJS.Signals): Promise<void> {
    const { kubelet } = this.#running();
    if (kubelet !== undefined) process.kill(await childOf(kubelet), signal);
  }

  /** Ends its agent in an orderly way, and resolves to the exit code. */
  async stopAgent(): Promise<number | null> {
    return (await (await this.signalAgent("SIGTERM")).ended).code;
  }

  /** Takes its network away, and all requests get no answer; or gives it back. */
  async setConnected(isConnected: boolean): Promise<void> {
    await this.#running().link.set(isConnected);
  }

  /** Takes away the way to some addresses alone, or gives it back. A reset gives all back. */
  async setReaches(addresses: readonly string[], reaches: boolean): Promise<void> {
    for (const address of addresses) await this.#running().link.setLost(address, !reaches);
  }

  /** Cuts this and nothing else, also in its later boots. */
  async setCuts(cuts: Cuts): Promise<void> {
    this.#cuts = cuts;
    await this.#then(async () => await this.#boot?.link.setCuts(cuts));
  }

  /** Its agents know of no earlier boot from the next boot on. */
  forgetBoots(): void {
    rmSync(this.#path("state"), { recursive: true, force: true });
  }

  get address(): string {
    return this.#options.address;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#poll);
    await this.#then(() => this.#end("test"));
    this.hardware.close();
  }

  #path(file: string): string {
    return join(this.#options.folder, file);
  }

  #running(): Boot {
    if (this.#boot === undefined) throw new Error(`${this.name} is off`);
    return this.#boot;
  }

  #then(act: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.catch(() => undefined).then(act);
    return this.#turn;
  }

  #fired(cause: ResetCause): void {
    writeFileSync(this.resetFile, "");
    if (this.#isClosed || this.#boot === undefined) return;
    void this.#then(async () => {
      await this.#end(cause);
      if (this.bootsAgain && !this.#isClosed) await this.#bootNow();
    });
  }

  #agentEnvironment(): Readonly<Record<string, string>> {
    const { agent, watchdogMs } = this.#options;
    return {
      NODE_NAME: this.name,
      AGENT_WATCHDOG: this.#path(this.hasWatchdog ? "watchdog" : "no-watchdog"),
      AGENT_WATCHDOG_SECONDS: String(watchdogMs / 1000),
      AGENT_RESET_FILE: this.resetFile,
      AGENT_RUN_FOLDER: this.#path("run"),
      AGENT_STATE_FOLDER: this.#path("state"),
      HOST_IPS: this.address,
      ...agent,
    };
  }

  async #bootNow(): Promise<void> {
    if (this.#boot !== undefined || this.#isClosed) return;
    const id = randomUUID();
    const ready = this.#path(`ready-${id}`);
    writeFileSync(this.#path("boot_id"), `${id}\n`);
    writeFileSync(this.resetFile, "");
    const uptime = Math.floor(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]));
    const files = [this.#path("boot_id"), this.#path("run"), ready];
    const args = [...namespaces, `--boottime=-${uptime}`, "sh", "-ec", firstProcess, "sh", ...files];
    const unshare = launch("unshare", args, { output: "pipe" });
    await eventually(`${this.name} has booted`, bootTimeoutMs, async () => {
      const end = unshare.end();
      if (end !== undefined) throw new Error(`${this.name} ended (${end.summary}): ${unshare.printed().stderr}`);
      return existsSync(ready) ? true : undefined;
    });
    const pid = await childOf(unshare);
    const link = await this.#options.bridge.connect(pid, this.#options.address);
    if (this.#cuts !== noCuts) await link.setCuts(this.#cuts);
    this.#boot = { id, unshare, pid, link, agent: undefined, kubelet: undefined, logs: [] };
    const { kubelet, address, agentProgram } = this.#options;
    const own = { node: this.name, systemUuid: this.systemUuid, address, isReady: this.isWell };
    const settings = { ...kubelet, ...own, agentProgram, agent: this.#agentEnvironment() };
    this.#boot.kubelet = this.#launchIn(this.#boot, [kubeletProgram, JSON.stringify(settings)], {});
    this.startAgent();
  }

  async #end(cause: ResetCause): Promise<void> {
    const boot = this.#boot;
    if (boot === undefined) return;
    this.#boot = undefined;
    process.kill(boot.pid, "SIGKILL");
    // Where a process of the machine was stopped, the one that had started it outside stands still as well, and reaps nothing.
    for (const launched of boot.logs) launched.signal("SIGKILL");
    await boot.unshare.ended;
    await Promise.all(boot.logs.map(({ ended }) => ended));
    this.resets.push({ cause, bootId: boot.id, atMs: performance.now() });
    this.#logs += `${boot.logs.map(printedBy).join("")}-- ${this.name} reset by ${cause} --\n`;
    this.hardware.reset();
  }

  #launchIn(boot: Boot, program: readonly string[], env: Readonly<Record<string, string>>): Launched {
    const enter = ["--target", String(boot.pid), "--mount", "--net", "--pid", "--time", "--"];
    const launched = launch("nsenter", [...enter, process.execPath, ...program], {
      env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: join(root, "node_modules/.cache/node"), ...env },
      output: "pipe",
    });
    boot.logs.push(launched);
    return launched;
  }
}

function printedBy(launched: Launched): string {
  const { stdout, stderr } = launched.printed();
  return stdout + stderr;
}

/** The one process that `unshare` or `nsenter` has started, by its number outside. */
function childOf({ pid }: Launched): Promise<number> {
  return eventually("a child", bootTimeoutMs, async () => {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return children === "" ? undefined : Number(children.split(" ")[0]);
  });
}
