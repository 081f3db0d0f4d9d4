package signin

import "net/http"

// The cookie's name says what a browser is to hold it to: with __Host- it comes from this host alone, over HTTPS and
// for every path, so that no sister domain and no plain connection can have set it. Over plain HTTP, which is for
// loopback alone, browsers know no such names.
const (
	secureCookie = "__Host-countersign"
	plainCookie  = "countersign"
)

func cookieName(secure bool) string { //nolint:revive // flag-parameter: it is how the browser came
	if secure {
		return secureCookie
	}
	return plainCookie
}

// SetCookie gives a browser its session. secure says that it came over HTTPS.
func SetCookie(w http.ResponseWriter, secret string, secure bool) {
	setCookie(w, secret, secure, int(SessionLasts.Seconds()))
}

// ClearCookie takes it away again.
func ClearCookie(w http.ResponseWriter, secure bool) { setCookie(w, "", secure, -1) }

func setCookie(w http.ResponseWriter, value string, secure bool, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(secure), Value: value, Path: "/", MaxAge: maxAge, Secure: secure,
		HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// Cookie returns the secret that a browser shows, "" for none. Over HTTPS the other name counts for nothing, which
// anybody between could have set; nor do several of one name, of which one is somebody else's.
func Cookie(r *http.Request, secure bool) string {
	found := r.CookiesNamed(cookieName(secure))
	if len(found) != 1 || len(found[0].Value) != secretLen {
		return ""
	}
	return found[0].Value
}
