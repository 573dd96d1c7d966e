// Names in little room: shortened only as far as they have to be, and still told apart.

// Plotly reads tags and entities in text: names stay what they are.
export function safe(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

export function shorten(text, limit) {
  const all = [...String(text)];
  if (all.length <= limit) return all.join("");
  const tail = Math.max(1, Math.floor(limit / 3));
  return `${all.slice(0, limit - 1 - tail).join("")}…${all.slice(-tail).join("")}`;
}

// The end of a name that is made of parts tells most: folders and scopes go first, then the middle.
export function brief(label, limit, kind = "tasks") {
  let name = label;
  // Folders one by one, and only as long as there is no room for them.
  const folder = /^[^/]*\/(?=.*[^/]{2})/;
  while ([...name].length > limit && folder.test(name)) name = name.replace(folder, "");
  const scope = /^[A-Za-z_]\w*[:.]+(?=[A-Za-z_])/;
  // Scopes of words, not a file's name with its endings.
  const scoped = /^(?:[A-Za-z_]\w*[:.]+)+(?:[A-Za-z_]\w{4,}|[A-Z_]{2}\w*)$/.test(name);
  while (kind === "tasks" && scoped && [...name].length > limit && scope.test(name)) name = name.replace(scope, "");
  return shorten(name, limit);
}

// What all names begin with: up to a joint between their parts, else as far as it goes.
function beginnings(names) {
  let same = 0;
  while (names.every((name) => same < name.length - 1 && name[same] === names[0][same])) same += 1;
  const joint = Math.max(...[..."_-./: "].map((sign) => names[0].lastIndexOf(sign, same - 1))) + 1;
  return [...new Set([joint, same])].filter((length) => length > 0);
}

// Names as far as there is room, with a number that no other one of `taken` has.
function numbered(items, taken) {
  const number = new Map();
  const used = new Set(taken);
  return items.map(([i, { label, limit }]) => {
    const text = (n) => `${[...label].slice(0, Math.max(limit - 2 - String(n).length, 1)).join("")}… ${n}`;
    if (!number.has(label)) {
      let n = 1;
      while (used.has(text(n))) n += 1;
      number.set(label, text(n));
      used.add(text(n));
    }
    return [i, number.get(label)];
  });
}

// Short names, each within its limit. Different names that would read the same lose what they
// have in common first; where they still read the same they are numbered.
export function distinct(items) {
  const short = items.map(({ label, limit, kind }) => brief(label, limit, kind));
  const alike = new Map();
  short.forEach((text, i) => alike.set(text, [...(alike.get(text) || []), i]));
  const taken = new Set(short);
  for (const [text, places] of alike) {
    const names = [...new Set(places.map((i) => items[i].label))];
    if (names.length < 2 || text === "") continue;
    const cut = (length) => new Map(places.map((i) => [i, shorten(`…${items[i].label.slice(length)}`, items[i].limit)]));
    const tells = (made) => {
      const of = new Map();
      for (const [i, name] of made) of.set(name, new Set(of.get(name)).add(items[i].label));
      return [...of].every(([name, labels]) => labels.size === 1 && !taken.has(name));
    };
    const made = beginnings(names).map(cut).find(tells) || numbered(places.map((i) => [i, items[i]]), taken);
    for (const [i, name] of made) {
      short[i] = name;
      taken.add(name);
    }
  }
  return short;
}
