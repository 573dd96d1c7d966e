// Before the first paint: the theme the reader chose last, where it can be known.
try {
  const theme = localStorage.getItem("rotameter-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {
  // a sandboxed frame has no storage: the system's theme is used
}
