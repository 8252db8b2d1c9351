import { readFileSync, writeFileSync } from "node:fs";
import { table } from "../triggers/table.ts";
const norm = (t: string) => t.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/`/g, "").trim();
const isCont = (cell: string, text: string) => { const n = norm(cell), m = norm(text); return n === m || (n.startsWith(m) && /^( \(|[.;:,])/.test(n.slice(m.length))); };
const shown = (t: string) => t.startsWith("kubectl ") ? `\`${t}\`` : t;
const merged = (old: string | undefined, text: string, keepRest: boolean) => {
  if (old === undefined) return shown(text);
  if (isCont(old, text)) return old;
  const rest = keepRest ? old.split(/(?<=[.]) /).slice(1).join(" ") : "";
  return rest === "" ? shown(text) : `${shown(text)}. ${rest}`;
};
const inPlace = new Set(["keep-ledgers", "release-namespace", "rotate-certificate", "validate-zone-budget"]);
for (const { name, guards } of table) {
  const path = `functions/${name}/README.md`;
  const text = readFileSync(path, "utf8");
  const lines = text.split("\n");
  const tables: { at: number; end: number; head: string[] }[] = [];
  for (let i = 0; i < lines.length; i++) if (/^\| guard \|/.test(lines[i]!)) { let e = i; while (lines[e]?.startsWith("|")) e++; tables.push({ at: i, end: e, head: lines[i]!.split("|").slice(1, -1).map((c) => c.trim()) }); }
  const last = tables.at(-1);
  const isFull = last?.head.includes("ends") || name === "advance-zone-rollout" || name === "evaluate-eviction" || inPlace.has(name);
  const code = name === "evaluate-eviction";
  const old = new Map<string, string[]>();
  if (last && isFull) for (const row of lines.slice(last.at + 2, last.end)) { const c = row.split("|").slice(1, -1).map((x) => x.trim()); const g = /`([a-z-]+)`/.exec(c[0]!)![1]!; old.set(g, c); }
  const order = [...[...old.keys()].filter((g) => g in guards), ...Object.keys(guards).filter((g) => !old.has(g))];
  for (const g of old.keys()) if (!(g in guards)) console.log(name, "README only", g);
  const rows = order.map((g) => {
    const d = guards[g]!; const o = old.get(g);
    const hd = last!.head; const m = o && o[hd.indexOf("what it means")], t = o && o[hd.indexOf("what to do")];
    const cells = [o?.[0] ?? `\`${g}\``, ...(code ? [o?.[1] ?? "?"] : []), d.ends, merged(m, d.means, true), merged(t, d.todo, true)];
    if (o && (!isCont(m!, d.means) || !isCont(t!, d.todo))) console.log(`${name} ${g}\n   - ${m} | ${t}\n   + ${cells.at(-2)} | ${cells.at(-1)}`);
    return `| ${cells.join(" | ")} |`;
  });
  const head = ["guard", ...(code ? ["code"] : []), "ends", "what it means", "what to do"];
  const block = [`| ${head.join(" | ")} |`, `| ${head.map(() => "---").join(" | ")} |`, ...rows];
  let out: string;
  if (isFull) out = [...lines.slice(0, last!.at), ...block, ...lines.slice(last!.end)].join("\n");
  else {
    const tl = [...lines];
    for (const t of tables) tl[t.at] = tl[t.at]!.replace("| guard |", "| guards |");
    out = `${tl.join("\n").trimEnd()}\n\n## Each guard\n\nThe column *ends* says whether a guard [ends by itself, or needs a person](../../CONTRIBUTING.md#to-add-a-guard).\n\n${block.join("\n")}\n`;
  }
  writeFileSync(path, out);
  const above = out.split("\n---\n")[0]!;
  console.log("##", name, "lines above", above.trimEnd().split("\n").length, "missing above:", Object.keys(guards).filter((g) => !above.includes(`\`${g}\``)).join(" "));
}
