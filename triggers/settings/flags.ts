/**
 * The command line: rollout-operator's flags, for users who put Sluice in its place and keep the arguments. A flag's value is
 * put into the environment from which the settings are read, and replaces the variable there.
 */

import { isDeepStrictEqual } from "node:util";
import leven from "leven";
import { showValue, unshown } from "../../functions/shared/base/escape-control.ts";
import type { Environment } from "../../functions/shared/base/settings.ts";
import { type Flag, flags } from "./flags-table.ts";
import { settingsTable } from "./settings.ts";

export interface CommandLine {
  readonly help: boolean;
  /** The file to be replayed, `-` for standard input; undefined where the process is to serve. */
  readonly replay: string | undefined;
  /** The process is to say whether Sluice may be uninstalled, and to end. */
  readonly checksUninstall: boolean;
  /** A line for each; what else was read is to be used only when there is none. */
  readonly mistakes: readonly string[];
  /** What is other than rollout-operator would have it, a line for each. */
  readonly warnings: readonly string[];
  /** The environment, with what the flags say. */
  readonly environment: Environment;
  /** Where flags say that the cluster is. */
  readonly access: { readonly kubeconfig?: string; readonly server?: string };
}

/** The ports that rollout-operator's users expect, although their arguments do not name them. */
const usualPort = "8001";
const usualTlsPort = "8443";

/** The flags that are not rollout-operator's. The first one has a value. */
const replayName = "replay";
const checkName = "check-uninstall";

/** Reads the arguments of a process, in Go's syntax. Without any the environment stays as it is. */
export function readFlags(argv: readonly string[], environment: Environment): CommandLine {
  const { help, replay, checksUninstall, given, mistakes } = parseArguments(argv);
  const values = new Map<string, string>();
  const warnings: string[] = [];
  for (const [flag, text] of given) {
    const value = flag.parse(text);
    const fits = value !== undefined && (flag.field === undefined || isSetting(flag.field, value));
    if (!fits) {
      mistakes.push(`-${flag.name} is ${showValue(text)}; write ${flag.grammar}`);
      continue;
    }
    values.set(flag.name, value);
    if (flag.differs(text, value)) warnings.push(`-${flag.name}=${plain(text)}: ${flag.meaning}`);
  }
  mistakes.push(...contradictionsIn(values));
  const overrides = new Map<string, string>();
  for (const { name, field } of flags) {
    const value = values.get(name);
    if (field !== undefined && value !== undefined) overrides.set(settingsTable[field].name, value);
  }
  applyTls(values, environment, { overrides, mistakes, warnings });
  warnings.push(...disagreements(overrides, environment));
  if (given.size > 0 && !environment.PORT?.trim() && !overrides.has("PORT")) overrides.set("PORT", usualPort);
  const kubeconfig = values.get("kubernetes.config-file");
  const server = values.get("kubernetes.api-url");
  return {
    help,
    replay,
    checksUninstall,
    mistakes,
    warnings,
    environment: { ...environment, ...Object.fromEntries(overrides) },
    access: { ...(kubeconfig ? { kubeconfig } : {}), ...(server ? { server } : {}) },
  };
}

function isSetting(field: keyof typeof settingsTable, value: string): boolean {
  // Empty settings count as not set.
  return value === "" || settingsTable[field].parse(value) !== undefined;
}

interface ParsedArguments {
  help: boolean;
  replay: string | undefined;
  checksUninstall: boolean;
  /** By flag, what was written of it last. */
  readonly given: Map<Flag, string>;
  readonly mistakes: string[];
}

/** An argument as it was written, unless it may hold a password. */
function plain(argument: string): string {
  return showValue(argument) === unshown ? unshown : argument;
}

/** As Go's package `flag` does, except that it goes on after a mistake, and that an argument which is no flag is one. */
function parseArguments(argv: readonly string[]): ParsedArguments {
  const parsed: ParsedArguments = {
    help: false,
    replay: undefined,
    checksUninstall: false,
    given: new Map(),
    mistakes: [],
  };
  const rest = [...argv];
  let before: Flag | undefined;
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    const match = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(argument);
    if (match === null) {
      parsed.mistakes.push(describeNoFlag(argument, before));
      continue;
    }
    const [, name = "", text] = match;
    const flag = flags.find((one) => one.name === name);
    before = text === undefined ? flag : undefined;
    if (takeOwn(parsed, name, text, rest)) continue;
    if (flag === undefined) parsed.mistakes.push(describeUnknown(name));
    else takeFlag(parsed, flag, text, rest);
  }
  return parsed;
}

/** False for a flag that is not one of ours. `rest`: as in {@link takeFlag}. */
function takeOwn(parsed: ParsedArguments, name: string, text: string | undefined, rest: string[]): boolean {
  if (name === "h" || name === "help") parsed.help = true;
  else if (name === replayName) takeReplay(parsed, text ?? rest.shift());
  else if (name === checkName) takeCheck(parsed, text);
  else return false;
  return true;
}

function takeReplay(parsed: ParsedArguments, file: string | undefined): void {
  parsed.replay = file;
  if (!file) parsed.mistakes.push(`-${replayName} has no value; write -${replayName}=FILE`);
}

function takeCheck(parsed: ParsedArguments, text: string | undefined): void {
  parsed.checksUninstall = true;
  if (text !== undefined) parsed.mistakes.push(`-${checkName} is ${showValue(text)}; write -${checkName}`);
}

/** `rest`: the arguments behind it, of which it takes the first where its value is not written with it. */
function takeFlag({ given, mistakes }: ParsedArguments, flag: Flag, text: string | undefined, rest: string[]): void {
  const value = text ?? (flag.isBoolean ? "true" : rest.shift());
  if (value === undefined) mistakes.push(`-${flag.name} has no value; write -${flag.name}=VALUE`);
  else given.set(flag, value);
}

function describeNoFlag(argument: string, before: Flag | undefined): string {
  if (before?.isBoolean)
    return `${plain(argument)}: write -${before.name}=${plain(argument)}: a flag that is true or false takes "="`;
  return `${plain(argument)}: there is no such argument; settings are environment variables and flags, see --help`;
}

function describeUnknown(name: string): string {
  const near = [...flags.map((flag) => flag.name), replayName, checkName]
    .map((known) => ({ known, distance: known.includes(name) ? 0 : leven(name, known) }))
    .filter(({ distance }) => distance <= Math.max(2, name.length / 4))
    .sort((one, other) => one.distance - other.distance)
    .slice(0, 3)
    .map(({ known }) => `-${known}`);
  return `-${name}: there is no such flag; ${near.length === 0 ? "see --help" : `similar: ${near.join(", ")}`}`;
}

/** Flags that rollout-operator does not accept together. */
function contradictionsIn(values: ReadonlyMap<string, string>): string[] {
  const mistakes: string[] = [];
  const isOn = (name: string) => values.get(name) === "true";
  const [file, url] = ["kubernetes.config-file", "kubernetes.api-url"];
  if (!values.get(file) !== !values.get(url))
    mistakes.push(`-${file} and -${url} come together; write both or neither`);
  const qps = Number(values.get("kubernetes.client-qps") ?? 5);
  const burst = Number(values.get("kubernetes.client-burst") ?? 10);
  if (qps > 0 && burst < 1) mistakes.push(`-kubernetes.client-burst is ${burst}; write at least 1, or a qps of 0`);
  const validation = "server.cluster-validation.http";
  if (isOn(`${validation}.soft-validation`) && !isOn(`${validation}.enabled`)) {
    mistakes.push(`-${validation}.soft-validation is true without -${validation}.enabled; write both or neither`);
  }
  if (isOn("use-zone-tracker") && values.get("zone-tracker.config-map-name") === "") {
    mistakes.push("-zone-tracker.config-map-name is empty; write a name, or -use-zone-tracker=false");
  }
  return mistakes;
}

interface FlagResults {
  readonly overrides: Map<string, string>;
  readonly mistakes: string[];
  readonly warnings: string[];
}

/** The flags of TLS belong together: a port without TLS has none, and files are read only if no certificate is self-signed. */
function applyTls(values: ReadonlyMap<string, string>, environment: Environment, results: FlagResults): void {
  const { overrides } = results;
  const port = environment[tlsNames.port]?.trim() || "off";
  const enabled = values.get("server-tls.enabled") ?? (port === "off" ? undefined : "true");
  const selfSigned = values.get("server-tls.self-signed-cert.enabled");
  if (enabled !== "true") {
    applyNoTls(overrides, enabled);
    return;
  }
  if (port === "off" && !overrides.has(tlsNames.port)) overrides.set(tlsNames.port, usualTlsPort);
  if (selfSigned === "false") applyCertificateFiles(values, environment, results);
  else applySelfSigned(values, selfSigned, results);
}

const tlsNames = { port: "TLS_PORT", cert: "TLS_CERT_FILE", key: "TLS_KEY_FILE" };

function applyNoTls(overrides: FlagResults["overrides"], enabled: string | undefined): void {
  const { port, cert, key } = tlsNames;
  for (const name of [port, cert, key]) overrides.delete(name);
  if (enabled !== "false") return;
  overrides.set(port, "off");
  for (const name of [cert, key]) overrides.set(name, "");
}

function applyCertificateFiles(
  values: ReadonlyMap<string, string>,
  environment: Environment,
  { overrides, mistakes }: FlagResults,
): void {
  const files = [tlsNames.cert, tlsNames.key];
  if (files.some((name) => !(overrides.get(name) ?? environment[name]?.trim()))) {
    // One line is enough for both.
    for (const name of files) overrides.set(name, "");
    mistakes.push(
      "-server-tls.self-signed-cert.enabled is false; write -server-tls.cert-file and -server-tls.key-file too",
    );
  }
  if (values.get("webhooks.update-ca-bundle") !== "false") {
    mistakes.push("-server-tls.self-signed-cert.enabled is false; write -webhooks.update-ca-bundle=false too");
  }
}

function applySelfSigned(
  values: ReadonlyMap<string, string>,
  selfSigned: string | undefined,
  { overrides, warnings }: FlagResults,
): void {
  for (const name of ["server-tls.cert-file", "server-tls.key-file"]) {
    if (values.get(name))
      warnings.push(`-${name}: no file is read, because -server-tls.self-signed-cert.enabled is true`);
  }
  for (const name of [tlsNames.cert, tlsNames.key]) {
    overrides.delete(name);
    if (selfSigned === "true") overrides.set(name, "");
  }
}

/** Variables that are set, and to another value than the flags'. */
function disagreements(overrides: ReadonlyMap<string, string>, environment: Environment): string[] {
  return Object.values<(typeof settingsTable)[keyof typeof settingsTable]>(settingsTable).flatMap(({ name, parse }) => {
    const before = environment[name]?.trim();
    const text = overrides.get(name);
    if (!before || text === undefined || isDeepStrictEqual(parse(before), parse(text))) return [];
    return [`${name} is ${showValue(before)}, and flags say ${showValue(text)}: the flags win`];
  });
}
